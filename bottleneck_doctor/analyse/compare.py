"""What moved between two runs beyond the noise of both."""

from __future__ import annotations

import math

from ..model.gate import Comparison, Move
from ..model.report import Metric, Report
from .comparable import differences
from .conditions import is_fraction

LOWER_IS_BETTER = frozenset(
    {
        "data_wait_fraction",
        "exposed_data_wait_fraction",
        "step_time_s",
        "iowait_fraction",
        "startup_s",
        "evaluation_fraction",
        "checkpoint_fraction",
    }
)
HIGHER_IS_BETTER = frozenset({"steps_per_s", "samples_per_s", "gpu_busy_fraction", "mfu"})
# An interval knows the noise inside one run, not between runs: two runs of one script on a quiet machine
# still differ by about this much. Ours, and also the floor of nsys-ai.
BETWEEN_RUNS = 0.02
BETWEEN_RUNS_FRACTION = 0.01


def compare(base: Report, new: Report) -> Comparison:
    """Both reports side by side, metric by metric in the order of the new one."""
    names = dict.fromkeys([*new.metrics, *base.metrics])
    moves = [_move(name, base.metrics.get(name), new.metrics.get(name)) for name in names]
    before, after = ({finding.id for finding in report.findings} for report in (base, new))
    return Comparison(
        base=base.verdict,
        new=new.verdict,
        moves=[move for move in moves if move is not None],
        gone=sorted(before - after),
        appeared=sorted(after - before),
        differences=differences(base, new),
    )


def _move(name: str, base: Metric | None, new: Metric | None) -> Move | None:
    """None when neither run measured it."""
    before, after = (metric.value if metric else None for metric in (base, new))
    if before is None and after is None:
        return None
    if before is None or after is None:
        return Move(name, "absent", base, new)
    assert base is not None and new is not None
    delta = after - before
    if None in (base.low, base.high, new.low, new.high):
        return Move(name, "unknown", base, new, delta)
    low, high = _delta_interval(base, new)
    return Move(name, _kind(name, before, delta, low, high), base, new, delta, low, high)


def _kind(name: str, before: float, delta: float, low: float, high: float) -> str:
    floor = BETWEEN_RUNS_FRACTION if is_fraction(name) else BETWEEN_RUNS * abs(before)
    if low <= 0 <= high or abs(delta) <= floor:
        return "noise"
    if name in LOWER_IS_BETTER:
        return "better" if delta < 0 else "worse"
    if name in HIGHER_IS_BETTER:
        return "better" if delta > 0 else "worse"
    return "moved"


def _delta_interval(base: Metric, new: Metric) -> tuple[float, float]:
    """The 90 % interval of new - base, the two runs being independent."""
    assert base.value is not None and base.low is not None and base.high is not None
    assert new.value is not None and new.low is not None and new.high is not None
    delta = new.value - base.value
    down = math.hypot(new.value - new.low, base.high - base.value)
    up = math.hypot(new.high - new.value, base.value - base.low)
    return delta - down, delta + up
