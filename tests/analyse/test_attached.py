"""What is said of a training that was looked at from outside: which side, how sure, no prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.fetches import Blocked
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Process, Run

TORCH = "/x/site-packages/torch"
MAIN = "<module> (/data/train.py:40)"
NEXT = [MAIN, f"__next__ ({TORCH}/utils/data/dataloader.py:734)"]
FETCH = f"fetch ({TORCH}/utils/data/_utils/fetch.py:54)"
ITEM = "Rows.__getitem__ (/data/train.py:9)"
FORWARD = [MAIN, f"_call_impl ({TORCH}/nn/modules/module.py:1750)"]
BACKWARD = [MAIN, f"backward ({TORCH}/autograd/__init__.py:353)"]
SAVE = [MAIN, f"save ({TORCH}/serialization.py:900)"]
RUN = Run(
    ["python", "train.py"], "train.py", "/data", "2026-01-01T00:00:00+00:00", 60.0, 0, pid=7, attached=True
)


def looked(
    data: int, model: int, saving: int = 0, workers: tuple[int, int] | None = (400, 380),
    asleep: str = "storage", gpus: tuple[str, ...] = (),
) -> Profile:  # fmt: skip
    """So many samples of the loop's thread; ``workers`` = (samples in fetches, awake), None: none there."""
    stacks = [
        Stack(7, "trainer", "MainThread", NEXT if workers else [*NEXT, FETCH, ITEM], data, data),
        Stack(7, "trainer", "MainThread", FORWARD, model // 2, model // 2),
        Stack(7, "trainer", "MainThread", BACKWARD, model - model // 2, model - model // 2),
        Stack(7, "trainer", "MainThread", SAVE, saving, 0),
    ]
    if workers:
        stacks.append(Stack(8, "worker", "MainThread", ["_worker_loop (w.py:1)", FETCH, ITEM], *workers))
    return Profile(
        run=RUN,
        machine=Machine("box", "6", "cpu", 2, 2.0, gpus=list(gpus)),
        processes=[Process(7, 1, "trainer", 0.0), Process(8, 7, "worker", 0.0)],
        stacks=[one for one in stacks if one.count],
        blocked=[Blocked("", [1.0, 2.0], [{"running": 20, asleep: 200}, {asleep: 180}], pid=8)],
    )


@pytest.mark.parametrize(
    ("profile", "bound", "cause", "confidence"),
    [
        (looked(300, 100), "cpu", "input.preprocess", "medium"),
        (looked(300, 250), "cpu", "input.preprocess", "low"),
        (looked(300, 100, workers=(400, 20)), "io", "input.storage", "medium"),
        (looked(300, 100, workers=(400, 20), asleep="network"), "io", "input.network", "medium"),
        (looked(300, 100, workers=(400, 20), asleep="lock"), "latency", "input.wait", "medium"),
        (looked(300, 100, workers=None), "cpu", "input.preprocess", "medium"),
        (looked(50, 350), "cpu", "model.compute", "medium"),
        (looked(50, 350, gpus=("a GPU",)), "inconclusive", "none", "low"),
        (looked(300, 100, gpus=("a GPU",)), "cpu", "input.preprocess", "medium"),
        (looked(20, 100, saving=300), "io", "host.checkpoint", "medium"),
        (looked(40, 30), "inconclusive", "none", "low"),
    ],
)
def test_the_side_with_most_samples_is_named(
    profile: Profile, bound: str, cause: str, confidence: str
) -> None:
    verdict = diagnose(profile).verdict
    assert (verdict.bound, verdict.cause, verdict.confidence) == (bound, cause, confidence), verdict


def test_shares_are_told_with_their_intervals_and_nothing_is_predicted() -> None:
    report = write_up(looked(300, 100))
    wait = report.metrics["data_wait_fraction"]
    assert (wait.value, wait.n) == (0.75, 400)
    assert wait.low is not None
    assert wait.high is not None
    assert 0.70 < wait.low < 0.75 < wait.high < 0.80
    assert "waiting for data 75%, the model 25%; steps were not timed" in report.verdict.summary
    assert report.remedies == []


def test_a_run_of_our_own_without_steps_stays_inconclusive() -> None:
    profile = looked(300, 100)
    verdict = diagnose(replace(profile, run=replace(profile.run, attached=False))).verdict
    assert (verdict.bound, verdict.summary) == ("inconclusive", "no training step was seen")
