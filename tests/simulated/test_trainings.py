"""Trainings on a simulated device go through bdoc from end to end, and what it says is what was true.

No number is from hardware. What is held against the truth is bdoc's reading of clocks, its division of the
step, and its words; not what a real device would have done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulated.watched import Seen, plain, watched

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone]

POINTS = 0.1  # of exposed data wait, beyond the interval of some ten sampled steps: others may have the cores
BUSY_POINTS = 0.06  # a profiler sees five steps, on a machine that may have others to run
SLOWER = 1.35  # than usual: the host was short of cores, and the simulated device never is
LONGER = "600"  # steps of the second try, where the first was starved
SLACK = 1.25  # between a prediction's range and what was measured, for the same reason
LAUNCHES = ("bigger-batch", "cuda-graphs", "torch-compile")
COPIES = ("gpu-resident-dataset", "device-prefetcher")


def seen_well(name: str, usual_s: float, folder: Path) -> Seen:
    """The training under bdoc; again, and for longer, where others had its cores; a step is ``usual_s``."""
    seen = watched(name, folder)
    unseen = seen.measured("exposed_data_wait_fraction") is None
    if unseen or seen.truth["step_s"] > SLOWER * usual_s:
        return watched(name, folder, "--steps", LONGER)
    return seen


@pytest.mark.parametrize(
    ("name", "step_s", "verdict", "remedies"),  # no remedies: nothing is worth doing
    [
        ("starved_by_source", 0.0096, ("latency", "input.wait"), ("workers-auto",)),
        ("launch_bound", 0.0108, ("cpu", "host.launch"), LAUNCHES),
        ("sync_bound", 0.0140, ("cpu", "host.sync"), ("defer-readback",)),
        ("transfer_bound", 0.0127, ("gpu", "device.transfer"), COPIES),
        ("optimizer_loop", 0.0120, ("cpu", "host.launch"), ("optimizer-fused",)),
        ("allocator_churn", 0.0101, ("gpu", "device.memory"), ("drop-empty-cache",)),
        ("hidden_wait", 0.0130, ("gpu", "device.compute"), ()),
        ("healthy", 0.0102, ("gpu", "device.compute"), ()),
    ],
)
def test_what_is_said_of_a_training_was_true(
    name: str, step_s: float, verdict: tuple[str, str], remedies: tuple[str, ...], tmp_path: Path
) -> None:
    seen = seen_well(name, step_s, tmp_path)
    assert (seen.report.verdict.bound, seen.report.verdict.cause) == verdict
    assert (seen.first.id if seen.first is not None else None) in (remedies or (None,))
    exposed = seen.report.metrics["exposed_data_wait_fraction"]
    assert exposed.low is not None
    assert exposed.high is not None
    assert exposed.low - POINTS <= seen.truth["input"] <= exposed.high + POINTS
    busy = seen.measured("gpu_busy_fraction")
    assert busy == pytest.approx(seen.truth["busy"], abs=BUSY_POINTS)
    if name == "optimizer_loop":
        cured = watched(name, tmp_path, "--cured").report
        assert "optimizer-step-slow" not in {one.id for one in cured.findings}
    if name == "starved_by_source":  # where the script's cure is the first remedy, and takes no luck
        assert seen.first is not None
        promised = seen.first.predicted_speedup
        measured = seen.truth["step_s"] / plain(name, tmp_path, "--cured")["step_s"]
        assert promised.low / SLACK <= measured <= promised.high * SLACK
