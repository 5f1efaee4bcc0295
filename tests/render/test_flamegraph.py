"""The flame graph's page: whole, escaped, readable without its charts, and without stacks it says why."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bottleneck_doctor.model.picture import CallPath, CallPaths
from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.render.flamegraph import flamegraph_page
from tests.render.hostile import ATTACKS, attacked
from tests.render.pictures import SAMPLED, UNSAMPLED
from tests.render.reports import QUALITY, TYPICAL

SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)


def body(page: str) -> str:
    """What a reader without scripts gets."""
    return SCRIPT.sub("", page.partition("<main")[2].partition("</main>")[0])


def listed(page: str) -> list[str]:
    """The rows of the lists, without tags."""
    rows = re.findall(r'<(?:summary|div class="row[^>]*)>(.*?)</(?:summary|div)>', body(page))
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]


def test_without_its_charts_the_page_is_a_list() -> None:
    rows = listed(flamegraph_page(TYPICAL, SAMPLED))
    assert rows[0] == "as a list"
    assert rows[1:4] == [
        "100 % main train.py:41 blocked",
        "82 % __next__ torch/utils/data/dataloader.py:630 blocked",
        "82 % wait python3.11/threading.py:331 blocked",
    ]
    assert "74 % ImageFile.load PIL/ImageFile.py:425 mixed, 41 % on CPU" in rows
    assert rows[-1] == "100 % _feed python3.11/multiprocessing/queues.py:239", "nobody saw whether it slept"


def test_what_is_not_drawn_is_said() -> None:
    cut = replace(SAMPLED, stacks=[replace(SAMPLED.stacks[0], samples=120)])
    assert "120 samples, 22 of them in paths too rare to be drawn" in body(flamegraph_page(TYPICAL, cut))


def test_without_stacks_it_says_why() -> None:
    gap = Gap("python stacks (py-spy)", "py-spy was not found", "pip install py-spy")
    page = flamegraph_page(replace(TYPICAL, quality=replace(QUALITY, gaps=[gap])), UNSAMPLED)
    assert "No stacks were sampled" in page
    assert "Py-spy was not found; pip install py-spy." in body(page)
    assert "Plotly" not in page.partition("<main")[0], "nothing is drawn, so nothing draws"


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_hostile_profile_makes_no_markup(attack: str) -> None:
    frames = [f"{attack} ({attack}:{line})" for line in range(3)]
    picture = replace(SAMPLED, stacks=[CallPaths("worker", 9, [CallPath(frames, 9, 4)])])
    harmless = replace(
        SAMPLED, stacks=[CallPaths("worker", 9, [CallPath(["f (a:0)", "f (a:1)", "f (a:2)"], 9, 4)])]
    )

    def tags(page: str) -> set[str]:
        return set(re.findall(r"<[a-z/!][^ >]*", SCRIPT.sub("", page)))

    hostile = tags(flamegraph_page(attacked(TYPICAL, attack), picture))
    assert hostile <= tags(flamegraph_page(attacked(TYPICAL, "x"), harmless))
