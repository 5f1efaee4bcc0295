"""The page keeps a section for each device, and says plainly when there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.gpu.examine import Seen
from tests.gpu.sheet import HEADER, METHOD, NOT_YET, TITLE, Sheet, adds_up, missing, page, row, section, write
from tests.gpu.test_examine import STARVED, judged, report, taken
from tests.lab.run import ROOT
from tests.lab.table import gpus

SEEN = judged(STARVED, report(), taken())


def test_every_row_has_as_many_cells_as_the_header() -> None:
    title, line = HEADER.split("\n")
    assert title.count("|") == line.count("|") == row(SEEN).count("|")
    assert missing("a", "failed: two\nlines | and a bar").count("|") == title.count("|")
    assert "exposed wait" in title


def test_a_row_holds_what_was_said_beside_what_was_measured() -> None:
    assert row(SEEN) == (
        "| starved-by-cpu | cpu ✓ | input.preprocess ✓ | workers-auto ✓ | 0.610 / 0.600 ✓ | workers-auto "
        "| ×2.50 – ×3.10 – ×3.60 | replay | ×3.00 ✓ | ✓ | 0.240 / 0.250 | ×1.042 |"
    )


def test_a_new_section_replaces_the_devices_old_one_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page([]))
    for machine, line in (("one", "old"), ("two", "kept"), ("one", "new")):
        write(path, Sheet(machine, lines={"waits": line}))
    text = path.read_text()
    assert text.startswith(TITLE + METHOD)
    assert NOT_YET not in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## two", "## one"]
    assert "- kept\n" in text
    assert "- new\n" in text
    assert "- old\n" not in text


def test_the_published_page_is_such_a_page() -> None:
    text = (ROOT / "docs" / "accuracy-gpu.md").read_text(encoding="utf-8")
    assert text.startswith(TITLE + METHOD), "write it anew: tests.gpu.sheet.page"
    assert (NOT_YET in text) == (text.count("\n## ") == 1 and "| training |" not in text)


def test_the_page_about_cpus_says_what_is_known_of_gpus() -> None:
    said = gpus((ROOT / "docs" / "accuracy-gpu.md").read_text(encoding="utf-8"))
    page_of_cpus = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert said in page_of_cpus, "write it anew: python -m tests.accuracy --again tests/golden/accuracy"
    assert gpus("# a\n## NVIDIA A, 8 cores\n\n## B\n") == "GPUs: [NVIDIA A, 8 cores; B](accuracy-gpu.md)."


def test_what_was_left_out_or_failed_is_said() -> None:
    failed = {"saturated": "Failed: out of memory"}
    sheet = Sheet("box", {STARVED.name: SEEN}, failed=failed, left_out=["cost-1ms", "cost-20ms"])
    assert adds_up(sheet)[-2:] == ["failed: saturated", "left out: cost-1ms, cost-20ms"]
    assert "all: bound right 1 of 1" in section(sheet)
    assert "| saturated | failed: Failed: out of memory |" in section(sheet)


def sheet_of(*seen: Seen, **more: Any) -> Sheet:
    return Sheet("box", {str(number): one for number, one in enumerate(seen)}, **more)


def test_one_wrong_bound_one_failure_or_harm_makes_the_whole_wrong() -> None:
    assert sheet_of(SEEN).right
    wrong = replace(SEEN, judgement=replace(SEEN.judgement, bound_right=False))
    changed = replace(SEEN, judgement=replace(SEEN.judgement, same_output=False))
    late = replace(SEEN, judgement=replace(SEEN.judgement, wait_right=False))
    assert [sheet_of(SEEN, one).right for one in (wrong, changed, late)] == [False] * 3
    assert not sheet_of(SEEN, failed={"graphed": "why"}).right
    assert not sheet_of(SEEN, harm={"waits": True}).right


def test_one_cause_of_ten_may_be_wrong() -> None:
    wrong = replace(SEEN, judgement=replace(SEEN.judgement, cause_right=False))
    assert sheet_of(*[SEEN] * 9, wrong).right
    assert not sheet_of(*[SEEN] * 8, wrong).right
