"""One added wait, or one per cent of a step, is harm; counting nothing is no proof."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.unharmed import MOST, Waits, cost_line, longer, waits_line
from tests.lab.cost import Cost, Pair

CALLS = {"cudaStreamSynchronize": 80, "cudaDeviceSynchronize": 20}


def run(step_s: float, mean_step_s: float) -> Cost:
    rest: Any = dict.fromkeys(["first_step_s", "total_s", "memory_bytes", "other_cpu_s"], 0.0)
    return Cost(step_s=step_s, mean_step_s=mean_step_s, **rest)


def test_waits_are_the_same_only_call_by_call() -> None:
    assert Waits(CALLS, dict(CALLS)).same
    assert not Waits(CALLS, {**CALLS, "cudaStreamSynchronize": 81}).same
    assert not Waits(CALLS, {**CALLS, "cudaEventSynchronize": 1}).same
    assert not Waits({}, {}).same


def test_the_line_names_what_was_added() -> None:
    more = waits_line(Waits(CALLS, {**CALLS, "cudaEventSynchronize": 1}))
    assert more.endswith(
        "WITH BDOC: cudaStreamSynchronize 80, cudaDeviceSynchronize 20, cudaEventSynchronize 1"
    )
    assert "the same with and without bdoc" in waits_line(Waits(CALLS, CALLS))
    assert "nothing was compared" in waits_line(Waits({}, {}))


def test_the_middle_pair_counts() -> None:
    plain = run(0.005, 0.0051)
    pairs = [Pair(plain, run(0.005 * more, 0.0051 * more)) for more in (1.002, 1.004, 1.3)]
    assert longer(pairs) == pytest.approx(1.004)
    assert longer(pairs) <= MOST
    assert cost_line(5.0, pairs) == (
        "steps of 5 ms under bdoc: median ×1.0040 (+20 µs), mean ×1.0040, 3 pairs"
    )
