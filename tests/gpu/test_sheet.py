"""The page keeps a section for each device, and says plainly when there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.gpu.examine import Seen
from tests.gpu.sheet import METHOD, NOT_YET, TITLE, Sheet, page, write
from tests.gpu.test_examine import STARVED, judged, report, taken
from tests.lab.run import ROOT
from tests.lab.table import gpus

SEEN = judged(STARVED, report(), taken())


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
