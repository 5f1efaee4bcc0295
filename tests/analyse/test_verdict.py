"""What the verdict rests on where two causes are close; recorded trainings show which it names."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.verdict import Trust, decide
from bottleneck_doctor.model.diagnosis import BatchCost, CostShares, HostLoad, Inputs, Scenario, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Blocked
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Process, Run
from tests.analyse.runs import run_of

MS = 1e-3


@pytest.mark.parametrize("steps", [0, 1, 3, 7])
def test_a_few_steps_are_never_a_diagnosis(steps):
    diagnosis = diagnose(run_of(cpu=0.5, idle=0.1, steps=max(steps, 1), epochs=1))
    assert diagnosis.verdict.bound == "inconclusive"
    assert all(value is None for value in diagnosis.verdict.gain.values())


def test_warm_up_lasts_until_the_loops_own_work_has_settled_and_a_late_batch_is_none():
    own, batch = run_of(cpu=4 * MS, compute=4 * MS), run_of(cpu=4 * MS, compute=4 * MS)
    own.loops[0].table.wall_s[2] += 1.0
    batch.loops[0].table.wall_s[2] += 1.0
    batch.loops[0].table.wait_s[2] += 1.0
    assert diagnose(own).quality.warmup_steps == sum(own.loops[0].table.steps[:3])
    assert diagnose(batch).quality.warmup_steps == 0


@pytest.mark.parametrize(
    ("compute", "confidence", "said"),
    [(10 * MS, "low", True), (9 * MS, "low", False), (7 * MS, "medium", False), (4 * MS, "high", False)],
)
def test_two_sides_that_are_about_as_large_are_no_sure_verdict(compute, confidence, said):
    verdict = diagnose(run_of(cpu=10 * MS, compute=compute)).verdict
    assert verdict.confidence == confidence
    assert ("takes about as much" in verdict.summary) == said


@pytest.mark.parametrize(("saved_ms", "cause"), [(8, "host.checkpoint"), (5, "model.compute")])
def test_of_near_ties_writing_is_the_cause_since_the_model_is_quicker_without_it(saved_ms, cause):
    found = diagnose(run_of(compute=10 * MS, checkpoint=saved_ms * MS)).verdict
    assert found.cause == cause


def test_of_a_loader_that_was_not_seen_nothing_is_said_but_the_wait() -> None:
    run = run_of(workers=1, cpu=30 * MS, compute=2 * MS)
    unseen = replace(
        run,
        loaders=[],
        fetches=[],
        blocked=[],
        loops=[replace(run.loops[0], loader=f"{run.loops[0].pid}:?1")],
    )
    verdict = diagnose(unseen).verdict
    assert (verdict.bound, verdict.cause, verdict.confidence) == ("inconclusive", "none", "low")
    assert "of the step waits for batches, and what makes them was not seen" in verdict.summary


SEEN = Trust(steps=200, seconds=10.0, model_error=0.02, blocked_samples=0)


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        ("max-steps", "take --max-steps 600, or --max-seconds 30"),
        ("max-seconds", "take --max-seconds 30"),
        (None, "let it run longer"),
    ],
)
def test_a_window_that_is_too_short_says_what_to_ask_for(limit: str | None, advice: str) -> None:
    short = replace(SEEN, steps=191, seconds=0.27, stopped_by=limit)
    base = Scenario(works=(BatchCost(1e-4),), costs=(StepCost(1e-3),), cores=2.0)
    verdict, _ = decide(base, Inputs(), None, HostLoad(2.0), short)
    assert verdict.summary == f"191 steady steps lasted 0.27 s; 0.5 s is the least: {advice}"
    nearly = decide(base, Inputs(), None, HostLoad(2.0), replace(short, seconds=0.4999))[0].summary
    assert nearly.startswith("191 steady steps lasted 0.499 s;")


def cause(cost: StepCost) -> str:
    base = Scenario(works=(BatchCost(1e-4),), costs=(cost,), cores=2.0)
    return decide(base, Inputs(), None, HostLoad(2.0), SEEN)[0].cause


@pytest.mark.parametrize(
    ("paging", "expected"), [(0.018, "model.compute"), (0.03, "host.memory"), (0.002, "model.compute")]
)
def test_pages_that_a_model_maps_are_the_models_own_unless_they_take_more_than_it_computes(
    paging: float, expected: str
) -> None:
    assert cause(StepCost(0.02, paging=paging)) == expected


def test_a_loop_that_sleeps_in_its_own_lines_waits_and_has_no_slow_python() -> None:
    base = Scenario(
        works=(BatchCost(1e-4),), costs=(StepCost(0.005, 0.03),), cores=2.0, shares=CostShares(resting=1.0)
    )
    verdict, _ = decide(base, Inputs(), None, HostLoad(2.0), SEEN)
    assert (verdict.bound, verdict.cause) == ("latency", "input.wait")
    assert "training loop itself sleep" in verdict.summary


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
        (looked(300, 250), "cpu", "input.preprocess", "low"),
        (looked(300, 100, workers=(400, 20)), "io", "input.storage", "medium"),
        (looked(300, 100, workers=None), "cpu", "input.preprocess", "medium"),
        (looked(50, 350), "cpu", "model.compute", "medium"),
        (looked(50, 350, gpus=("a GPU",)), "inconclusive", "none", "low"),
        (looked(20, 100, saving=300), "io", "host.checkpoint", "medium"),
        (looked(40, 30), "inconclusive", "none", "low"),
    ],
)
def test_the_side_with_most_samples_is_named(
    profile: Profile, bound: str, cause: str, confidence: str
) -> None:
    verdict = diagnose(profile).verdict
    assert (verdict.bound, verdict.cause, verdict.confidence) == (bound, cause, confidence), verdict
