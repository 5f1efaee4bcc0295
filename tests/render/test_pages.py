"""The pages of ``bdoc explain``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor import launch
from bottleneck_doctor.analyse.conditions import METRIC_NAMES
from bottleneck_doctor.model.diagnosis import Proposal
from bottleneck_doctor.model.errors import BadProfile, Refused, UsageError
from bottleneck_doctor.model.report import Fix
from bottleneck_doctor.prescribe.rank import EASE, EFFORT
from bottleneck_doctor.render.glossary import (
    APPLY,
    BOUND_PAGES,
    BOUNDS,
    CAUSES,
    EFFORTS,
    GAPS,
    MESSAGES,
    METRICS,
)
from bottleneck_doctor.render.pages import list_pages, page, remedy_page, slug

LAUNCH = Path(launch.__file__).parent
PACKAGE = LAUNCH.parent
FINDINGS = {
    "loader-in-main": "Every batch is made by the training process itself.\n\nGive it workers: workers-auto.",
    "workers-too-few": "Too few workers. `workers-auto` finds how many.",
    "decode-bound": "Decoding takes the time; not about workers-auto-tune.",
}


def test_the_list_shows_each_id_with_its_first_sentence() -> None:
    assert list_pages({"findings": FINDINGS, "none": {}}) == (
        "findings\n"
        "  decode-bound     Decoding takes the time\n"
        "  loader-in-main   Every batch is made by the training process itself\n"
        "  workers-too-few  Too few workers\n"
        "\n"
        "none\n"
    )


def test_a_page_begins_with_its_id() -> None:
    assert (
        page("x-y", "First.\n\n    Indented like a docstring.\n")
        == "x-y\n\nFirst.\n\nIndented like a docstring.\n"
    )


REMEDY = Proposal(
    "workers-auto", "make batches in 2 processes", Fix("give it workers", "DataLoader(ds, num_workers=2)"),
    apply="env", risk="memory",
)  # fmt: skip


def test_a_remedy_says_what_it_takes_and_shows_each_way_once() -> None:
    again = replace(REMEDY, fix=Fix("give it workers", "DataLoader(ds, num_workers=5)"))
    other = replace(REMEDY, fix=Fix("give it a thread", "Ahead(loader)"), risk="none")
    shown = remedy_page("workers-auto", {"a-b": REMEDY, "c-d": again, "e-f": other})
    assert shown == (
        "workers-auto\n\n"
        "offered by  a-b, c-d, e-f\n"
        "for example make batches in 2 processes\n"
        "apply       env: an environment variable, set before the start; results stay what they are\n"
        "effort      minutes: an argument, a variable, a few lines\n"
        "risk        memory\n\n"
        "Give it workers:\n\n    DataLoader(ds, num_workers=2)\n\n"
        "Give it a thread:\n\n    Ahead(loader)\n\n"
        "When the advice is wrong: `bdoc explain a-b`\n"
    )


@pytest.mark.parametrize(
    ("said", "id"),
    [
        ("python stacks (py-spy)", "python-stacks-py-spy"),
        ("GPU counters", "gpu-counters"),
        ("hook~", "hook~"),
    ],
)
def test_an_id_may_be_written_as_the_report_says_it(said: str, id: str) -> None:
    assert slug(said) == id


def test_levels_efforts_and_bounds_are_all_explained() -> None:
    assert list(APPLY) == list(EASE)
    assert list(EFFORTS) == list(EFFORT)
    assert set(BOUND_PAGES) == set(BOUNDS)


def test_every_gap_explained_is_one_that_there_is() -> None:
    files = [*PACKAGE.glob("sense/*.py"), *PACKAGE.glob("assemble/*.py"), *PACKAGE.glob("commands/*.py")]
    said = {slug(text) for file in files for text in re.findall(r'"([^"\n]{3,40})"', file.read_text())}
    assert set(GAPS) - said == set()


def test_every_metric_of_the_contract_has_a_page() -> None:
    assert list(METRICS) == list(METRIC_NAMES)


def test_every_slug_of_an_error_has_a_page() -> None:
    slugs = {error.slug for error in (Refused, UsageError, BadProfile)} | {"cannot-say"}
    for file in LAUNCH.glob("*.py"):
        slugs.update(re.findall(r'CannotStart\(\s*"([a-z-]+)"', file.read_text()))
    assert len(slugs) > 5
    assert slugs <= set(MESSAGES)


def test_every_cause_has_words() -> None:
    assert {name for name, text in CAUSES.items() if not text} == {"none"}
    assert all("." in name or name == "none" for name in CAUSES)
