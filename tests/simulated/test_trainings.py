"""Trainings on a simulated device go through bdoc from end to end, and what it says is what was true.

No number is from hardware. What is held against the truth is bdoc's reading of clocks, its division of the
step, and its words; not what a real device would have done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.simulated.watched import Seen, plain, watched

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone]

POINTS = 0.02  # of exposed data wait, beyond the report's own interval for the steps that it did not look at
BUSY_POINTS = 0.06  # a profiler sees five steps, on a machine that may have others to run
SLOWER = 1.35  # than usual: the host was short of cores, and the simulated device never is
LONGER = "600"  # steps of the second try, where the first was starved
SLACK = 1.25  # between a prediction's range and what was measured, for the same reason


@dataclass(frozen=True)
class Expected:
    """What bdoc must say of a training; no ``remedies``: nothing is worth doing. ``step_s`` is a step's time
    where nobody else uses the cores."""

    name: str
    step_s: float
    bound: str
    cause: str
    remedies: tuple[str, ...] = ()


EVERY = [
    Expected("evaluating", 0.0090, "cpu", "input.preprocess", ("workers-auto",)),
    Expected("starved_by_source", 0.0096, "latency", "input.wait", ("workers-auto",)),
    Expected("launch_bound", 0.0108, "cpu", "host.launch", ("bigger-batch", "cuda-graphs", "torch-compile")),
    Expected("sync_bound", 0.0100, "cpu", "host.sync", ("defer-readback",)),
    Expected(
        "transfer_bound", 0.0127, "gpu", "device.transfer", ("gpu-resident-dataset", "device-prefetcher")
    ),
    Expected("allocator_churn", 0.0101, "gpu", "device.memory", ("drop-empty-cache",)),
    Expected("hidden_wait", 0.0130, "gpu", "device.compute"),
    Expected("healthy", 0.0102, "gpu", "device.compute"),
    Expected("long_reads", 0.0415, "gpu", "device.compute"),
]
CURED = ("starved_by_source", "sync_bound")  # where the script's cure is the first remedy, and takes no luck

Watch = Callable[[str], Seen]


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """Each training is watched once; again, and for longer, where others had its cores: then it was another
    training, or looks cost so much that too few were afforded."""
    seen: dict[str, Seen] = {}

    def once(name: str) -> Seen:
        if name not in seen:
            seen[name] = watched(name, tmp_path_factory.mktemp(name))
            if was_starved(seen[name], name):
                seen[name] = watched(name, tmp_path_factory.mktemp(name), "--steps", LONGER)
        return seen[name]

    return once


def was_starved(seen: Seen, name: str) -> bool:
    """Whether steps took longer than they do where nobody else uses the cores, or went without looks."""
    (usual,) = (one.step_s for one in EVERY if one.name == name)
    unseen = seen.measured("exposed_data_wait_fraction") is None
    return unseen or seen.truth["step_s"] > SLOWER * usual


@pytest.mark.parametrize("expected", EVERY, ids=lambda one: one.name)
def test_the_verdict_names_what_kept_the_device_idle(watch: Watch, expected: Expected) -> None:
    verdict = watch(expected.name).report.verdict
    assert (verdict.bound, verdict.cause) == (expected.bound, expected.cause)


@pytest.mark.parametrize("expected", EVERY, ids=lambda one: one.name)
def test_the_first_remedy_is_the_cure_and_the_healthy_get_none(watch: Watch, expected: Expected) -> None:
    first = watch(expected.name).first
    assert (first.id if first is not None else None) in (expected.remedies or (None,))


@pytest.mark.parametrize("expected", EVERY, ids=lambda one: one.name)
def test_the_exposed_wait_is_that_of_the_device(watch: Watch, expected: Expected) -> None:
    seen = watch(expected.name)
    metric = seen.report.metrics["exposed_data_wait_fraction"]
    assert metric.low is not None
    assert metric.high is not None
    assert metric.low - POINTS <= seen.truth["input"] <= metric.high + POINTS


@pytest.mark.parametrize("expected", EVERY, ids=lambda one: one.name)
def test_the_device_is_as_busy_as_it_was(watch: Watch, expected: Expected) -> None:
    seen = watch(expected.name)
    busy = seen.measured("gpu_busy_fraction")
    assert busy == pytest.approx(seen.truth["busy"], abs=BUSY_POINTS)


@pytest.mark.parametrize("name", CURED)
def test_the_predicted_speedup_is_that_of_the_cured_twin(watch: Watch, name: str, tmp_path: Path) -> None:
    sick = watch(name)
    assert sick.first is not None
    predicted = sick.first.predicted_speedup
    measured = sick.truth["step_s"] / plain(name, tmp_path, "--cured")["step_s"]
    assert predicted.low / SLACK <= measured <= predicted.high * SLACK


def test_a_device_that_cannot_be_timed_leaves_the_hosts_verdict_alone(tmp_path: Path) -> None:
    seen = watched("starved_by_cpu", tmp_path, "--untimed")
    assert seen.report.verdict.bound == "cpu"
    assert seen.report.verdict.cause == "input.preprocess"
    assert seen.report.verdict.confidence != "high"
    assert seen.first is not None
    assert seen.first.id == "workers-auto"
    assert seen.measured("exposed_data_wait_fraction") is None
    assert any("have no time" in gap.why for gap in seen.report.quality.gaps)
