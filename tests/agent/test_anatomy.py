"""A profiled step is cut into operators, short pauses and long ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bottleneck_doctor.agent.profiler import CALL_US, RECORDS_AT_MOST, OperatorTimes, dissect, is_operator


@dataclass
class Record:
    """What the profiler writes at the beginning and at the end of a span."""

    which: str
    called: str
    us: float

    def kind(self) -> str:
        return self.which

    def name(self) -> str:
        return self.called

    def cpu_elapsed_us(self, later: Record) -> float:
        return later.us - self.us


def step(*spans: tuple[str, float, float], end: float = 0.0) -> list[Record]:
    """(name, begin, end) in the order of beginning, between the profiler's own marks."""
    edges = [(begin, place, Record("push", name, begin)) for place, (name, begin, _) in enumerate(spans)]
    edges += [(end, -place, Record("pop", "", end)) for place, (_, _, end) in enumerate(spans)]
    inside = [record for _, _, record in sorted(edges, key=lambda edge: edge[:2])]
    last = end or max(record.us for record in inside)
    return [Record("mark", "__start_profile", 0.0), *inside, Record("mark", "__stop_profile", last)]


def test_an_operators_own_time_is_without_those_inside() -> None:
    table: dict[str, list[Any]] = {}
    found = dissect(step(("aten::linear", 10, 310), ("aten::addmm", 20, 300)), table)
    assert (found.operators, found.own) == (2, 300)
    assert (found.large, found.beyond) == (280, 280 - CALL_US + 20 - CALL_US)
    assert table == {"aten::linear": [1, 20], "aten::addmm": [1, 280]}


def test_short_and_long_pauses_are_told_apart_up_to_the_end_of_the_step() -> None:
    found = dissect(step(("aten::mm", 20, 30), ("aten::mm", 45, 50), ("aten::mm", 250, 260), end=1260), {})
    assert (found.short, found.long) == (20 + 15, 200 + 1000)


def test_spans_that_only_group_others_are_looked_through() -> None:
    table: dict[str, list[Any]] = {}
    found = dissect(step(("my part", 0, 500), ("aten::mm", 200, 210), end=500), table)
    assert table["my part"] == [1, 490]
    assert (found.operators, found.own, found.long) == (1, 10, 200 + 290)


def test_pauses_inside_an_optimizers_step_are_the_price_of_calling() -> None:
    found = dissect(
        step(("Optimizer.step#Adam.step", 0, 900), ("aten::add_", 400, 410), ("aten::add_", 890, 895)), {}
    )
    assert (found.short, found.long) == (400 + 480 + 5, 0)
    assert (found.longest_calls, found.longest_pauses) == ([480, 400], [])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::mm", True),
        ("MulBackward0", True),
        ("autograd::engine::evaluate_function: MulBackward0", True),
        ("Optimizer.step#Adam.step", False),
        ("validate", False),
    ],
)
def test_what_computes_by_itself(name: str, expected: bool) -> None:
    assert is_operator(name) is expected


@pytest.mark.parametrize("records", [[], [Record("mark", "__start_profile", 0.0)], [Record("pop", "", 1.0)]])
def test_a_table_cut_short_has_nothing_to_say(records: list[Record]) -> None:
    assert vars(dissect(records, {})) == vars(OperatorTimes())


def test_of_a_step_with_too_many_operators_the_share_is_told_that_was_looked_at() -> None:
    spans = [("aten::mm", 10.0 * place, 10.0 * place + 5) for place in range(RECORDS_AT_MOST)]
    found = dissect(step(*spans), {})
    assert found.operators == pytest.approx(RECORDS_AT_MOST / 2, rel=0.01)
    assert found.seen == pytest.approx(0.5, rel=0.01)
    assert dissect(step(*spans[:100]), {}).seen == 1.0
