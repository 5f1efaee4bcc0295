"""The pages of ``bdoc explain``."""

from __future__ import annotations

import re
from pathlib import Path

from bottleneck_doctor import launch
from bottleneck_doctor.analyse.conditions import METRIC_NAMES
from bottleneck_doctor.model.refusal import BadProfile, Refused, UsageError
from bottleneck_doctor.render.glossary import CAUSES, MESSAGES, METRICS
from bottleneck_doctor.render.pages import list_pages, page, pages_about

LAUNCH = Path(launch.__file__).parent
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


def test_a_remedy_leads_to_the_findings_that_speak_of_it() -> None:
    assert [text.split()[0] for text in pages_about("workers-auto", FINDINGS)] == [
        "loader-in-main",
        "workers-too-few",
    ]


def test_a_common_word_leads_nowhere() -> None:
    assert pages_about("workers", FINDINGS) == []
    assert pages_about("", FINDINGS) == []


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
