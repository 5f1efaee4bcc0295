"""Expectations: read strictly, held against the likely value, silent where that is not known."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.errors import UsageError
from bottleneck_doctor.model.proof import Expected, Gain, Proved
from bottleneck_doctor.prove.proof import check_id, judge, parse_expectation

KNOWN = ("workers-auto", "pin-memory")


def row(verdict: str, gain: Gain | None, why: str = "") -> Proved:
    return Proved("workers-auto", "remedy", "", ["workers-auto"], "hook", None, gain, verdict, why)


@pytest.mark.parametrize(
    ("text", "op", "threshold"),
    [
        ("workers-auto>1.5", ">", 1.5),
        (" workers-auto >= 2 ", ">=", 2.0),
        ("workers-auto<.9", "<", 0.9),
        ("workers-auto > 1.5x", ">", 1.5),
        ("workers-auto>×1.5", ">", 1.5),
    ],
)
def test_an_expectation_names_a_remedy_and_a_speedup(text: str, op: str, threshold: float) -> None:
    assert parse_expectation(text, KNOWN) == Expected("workers-auto", op, threshold)


def test_the_combination_and_the_ceiling_can_be_expected_too() -> None:
    assert parse_expectation("combination>2", KNOWN).id == "combination"
    assert parse_expectation("cached-batches>2", KNOWN).id == "cached-batches"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("workers-auto", "not ID OP NUMBER"),
        ("", "not ID OP NUMBER"),
        ("worker-auto>1.5", "did you mean workers-auto"),
        ("zzz>1.5", "`bdoc explain` lists them"),
        ("workers-auto==1.5", "no operator =="),
        ("workers-auto>nan", "a speedup above 0"),
        ("workers-auto>-1", "a speedup above 0"),
        ("workers-auto>0", "a speedup above 0"),
        ("workers-auto>fast", "a speedup above 0"),
    ],
)
def test_nonsense_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_expectation(text, KNOWN)


def test_an_unknown_remedy_is_refused_by_its_option() -> None:
    check_id("pin-memory", KNOWN, "--remedy")
    with pytest.raises(UsageError, match=r"--remedy 'pin-memroy': no such remedy, did you mean pin-memory"):
        check_id("pin-memroy", KNOWN, "--remedy")


@pytest.mark.parametrize(
    ("asked", "of", "status", "close"),
    [
        ("workers-auto>1.5", row("kept", Gain(1.8, 1.7, 1.9, 2)), 0, False),
        ("workers-auto>1.5", row("kept", Gain(1.2, 1.1, 1.3, 2)), 1, False),
        ("workers-auto>1.5", row("kept", Gain(1.6, 1.4, 1.8, 2)), 0, True),
        ("workers-auto>1.5", row("kept", Gain(1.4, 1.2, 1.6, 2)), 1, True),
        ("workers-auto>1.5", row("undecided", Gain(1.6, 0.9, 2.8, 2)), 3, True),
        ("workers-auto>1.5", row("undecided", Gain(1.1, 0.95, 1.3, 2)), 1, False),
        ("workers-auto<1.1", row("no gain", Gain(1.0, 0.98, 1.02, 2)), 0, False),
        ("workers-auto>1.5", row("broke", None, "no fork"), 3, False),
    ],
)
def test_the_likely_value_decides_unless_all_is_open(
    asked: str, of: Proved, status: int, close: bool
) -> None:
    (found,) = judge([parse_expectation(asked, KNOWN)], [of], {})
    assert (found.status, found.close) == (status, close)


def test_what_was_not_measured_says_why_nothing_can_be_said() -> None:
    wanted = [parse_expectation("workers-auto>1.5", KNOWN)]
    assert judge(wanted, [row("broke", None, "no fork")], {})[0].why == "no fork"
    assert judge(wanted, [], {"workers-auto": "nothing calls for it"})[0].why == "nothing calls for it"
    assert judge(wanted, [], {})[0].status == 3
