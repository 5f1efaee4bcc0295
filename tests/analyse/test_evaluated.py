"""The run as a whole: evaluation, the ledger, and what a faster step is worth in it."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.attribution import Evaluated, attribute
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.whole_run import ledger_of
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Epochs, LoopBody
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Elapsed, Process
from tests.analyse.runs import own_loop, run_of

MS = 1e-3


def evaluated(seconds: float, recorded: int = 0, **traits: float) -> Profile:
    """Three seconds of training, and so many of evaluation in steps like its own, with workers' work done."""
    run = run_of(**{"cpu": 1 * MS, "compute": 9 * MS, "steps": 300, **traits})
    other = run_of(cpu=1 * MS, compute=9 * MS, steps=100).loops[0]
    passes = Epochs([1.0, 2.0, 3.0], [0.0] * 3, [0.0] * 3, [34, 33, 33])
    held_out = replace(other, loader="1:2", epochs=passes, role="evaluation", wall_s=seconds, backwards=0,
                       forwards=2, recorded_forwards=recorded)  # fmt: skip
    return replace(
        run,
        run=replace(run.run, duration_s=5.0 + seconds),
        loops=[*run.loops, held_out],
        loaders=[*run.loaders, replace(run.loaders[0], key="1:2", dataset="Held out")],
    )


@pytest.mark.parametrize(
    ("seconds", "traits", "cause"),
    [
        (6.0, {}, "host.evaluation"),
        (1.5, {}, "model.compute"),
        (1.5, {"compute": 0.0, "idle": 9 * MS}, "host.evaluation"),
        (0.5, {"compute": 0.0, "idle": 9 * MS}, "input.preprocess"),
        (1.5, {"cpu": 8 * MS, "compute": 0.0, "idle": 2 * MS}, "input.preprocess"),
    ],
)
def test_evaluation_is_the_cause_where_saving_it_gains_most(
    seconds: float, traits: dict[str, float], cause: str
) -> None:
    verdict = diagnose(evaluated(seconds, **traits)).verdict
    assert verdict.cause == cause
    assert verdict.bound == "cpu", "the evaluation's own bound"


def test_evaluation_remedies_speak_of_the_whole_run_and_no_step_gets_faster() -> None:
    report = write_up(evaluated(6.0, recorded=2))
    first = report.remedies[0]
    assert first.id == "eval-less"
    assert first.predicted_speedup.likely == pytest.approx(9 / (9 - 6 * 0.8), rel=0.02)
    assert first.predicted_step_s == pytest.approx(report.metrics["step_time_s"].value)
    assert "eval-no-grad" in {remedy.id for remedy in report.remedies}
    assert "eval-no-grad" not in {remedy.id for remedy in write_up(evaluated(6.0)).remedies}


LIFE = Elapsed(1, first_s=3.0, last_s=9.0, exit_s=9.1, preparing_s=3.0, training_s=3.0)
SLOW = {"cpu": 20 * MS, "compute": 1 * MS, "steps": 100}


def slow_validation(steps: int = 300) -> Profile:
    """Quick training, and 20 s of a validation loader that decodes in the loop."""
    run, other = run_of(cpu=0.1 * MS, compute=1 * MS, steps=steps), run_of(**SLOW, epochs=4)
    held_out = replace(other.loops[0], loader="1:2", role="evaluation", wall_s=20.0, backwards=0)
    fetches = replace(other.fetches[0], loader="1:2")
    place = Location("train.py", 99)
    return replace(
        run,
        run=replace(run.run, duration_s=25.0),
        loops=[*run.loops, held_out],
        loaders=[*run.loaders, replace(run.loaders[0], key="1:2", dataset="Held out", location=place)],
        fetches=[*run.fetches, fetches],
    )


@pytest.mark.parametrize("steps", [300, 6])
def test_a_slow_validation_loader_is_the_verdict_however_short_the_training(steps: int) -> None:
    report = write_up(slow_validation(steps))
    assert (report.verdict.bound, report.verdict.cause) == ("cpu", "input.preprocess")
    assert "evaluation" in report.verdict.summary
    assert report.budget_of == "evaluation"
    shares = {part.part: part.share for part in report.budget}
    assert shares["data wait"] > 0.9
    assert "backward" not in shares
    assert report.metrics["evaluation_data_wait_fraction"].value == pytest.approx(
        shares["data wait"], rel=0.02
    )
    assert report.metrics["data_wait_fraction"].value != pytest.approx(shares["data wait"], abs=0.2)


def test_its_remedies_are_those_of_the_validation_loader() -> None:
    report = write_up(slow_validation())
    (finding,) = (one for one in report.findings if one.id == "loader-in-main")
    assert finding.location == Location("train.py", 99)
    (proposal,) = (one for one in report.remedies if one.id == "workers-auto")
    assert proposal.scope == "run"
    assert "evaluation" in proposal.title
    assert proposal.fix.location == Location("train.py", 99)
    both = 20.0 + 0.33
    assert 1.0 < proposal.predicted_speedup.likely < both / 0.33
    assert "eval-less" in {one.id for one in report.remedies}


def started(life: Elapsed, stopped_by: str | None = None, batch_s: float = 1 * MS) -> Profile:
    base = run_of(workers=8, cpu=batch_s, compute=9 * MS, steps=6, epochs=2, start=1.0)
    return replace(base, run=replace(base.run, duration_s=10.0, stopped_by=stopped_by), elapsed=[life])


def test_workers_that_start_for_most_of_the_run_are_the_verdict_though_steps_are_too_few() -> None:
    life = replace(LIFE, training_s=0.2, starting_s=4.0, first_start_s=0.5, stopping_s=1.0, beginnings=8)
    report = write_up(started(life))
    assert (report.verdict.bound, report.verdict.cause) == ("cpu", "input.worker_startup")
    none, kept = report.remedies
    assert (none.id, kept.id, none.scope, kept.scope) == ("workers-auto", "persistent-workers", "run", "run")
    assert none.predicted_speedup.likely == pytest.approx(10 / (10 - 5), rel=0.01)
    assert kept.predicted_speedup.likely == pytest.approx(10 / (10 - 3.5 - 7 / 8), rel=0.01)


@pytest.mark.parametrize(("batch_s", "left", "spared_s"), [(1 * MS, "none", 4.0), (250 * MS, "2", 3.0)])
def test_workers_that_start_once_are_too_many(batch_s: float, left: str, spared_s: float) -> None:
    """Without any, where the loop makes its few batches faster than they start."""
    life = replace(LIFE, training_s=0.2, starting_s=4.0, first_start_s=4.0, beginnings=1)
    (remedy,) = write_up(started(life, batch_s=batch_s)).remedies
    assert remedy.id == "workers-auto"
    assert f"fewer workers: {left} instead of 8" in remedy.title
    assert remedy.predicted_speedup.likely == pytest.approx(10 / (10 - spared_s), rel=0.02)


MAIN = """\
def main():
    for step in range(100):
        if step % 10 == 0:
            {evaluate}
        loss = model(get_batch())
        loss.backward()
        optimizer.step()
"""
ESTIMATE = """\
@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = [model(get_batch()) for _ in range(60)]
    picture.save("losses.png")
    model.train()
    return sum(losses)
"""
FORWARD = """\
def forward(self, x):
    return self.head(x)
"""
TORCH = "_call_impl (/x/site-packages/torch/nn/modules/module.py:1)"
BODY = LoopBody("train.py", "main", 2, 7)


def told(evaluate: str) -> Evaluated:
    forward = [TORCH, "forward (train.py:41)"]
    stacks = [
        stack(60, "main (train.py:4)", "estimate_loss (train.py:23)", *forward),
        stack(10, "main (train.py:5)", *forward),
        stack(30, "main (train.py:6)", "backward (/x/site-packages/torch/_tensor.py:1)"),
    ]
    sources = [
        FunctionSource("train.py", "main", 1, MAIN.format(evaluate=evaluate)),
        FunctionSource("train.py", "estimate_loss", 20, ESTIMATE),
        FunctionSource("train.py", "forward", 40, FORWARD),
    ]
    profile = replace(run_of(), stacks=stacks, sources=sources)
    return attribute(profile, own_loop(10, BODY, wall_s=0.01)).evaluated


def stack(count: int, *frames: str) -> Stack:
    return Stack(1, "trainer", "MainThread", list(frames), count)


@pytest.mark.parametrize("evaluate", ["estimate_loss(model)", "print(estimate_loss(model))"])
def test_forward_passes_that_nothing_is_trained_on_are_evaluation(evaluate: str) -> None:
    found = told(evaluate)
    assert (found.share, found.place) == (0.6, Location("train.py", 4, "main"))


def test_evaluation_is_set_aside_from_the_steps_that_are_longer_than_usual() -> None:
    """Every tenth step of 10 ms evaluates for 90 ms more: 9 of 19 seconds."""
    run = run_of(cpu=2e-3, compute=8e-3, steps=1000, noise=0.0)
    table = run.loops[0].table
    walls = [0.1 if place % 10 == 9 else 0.01 for place in range(1000)]
    loop = replace(run.loops[0], table=replace(table, wall_s=walls, cpu_s=[wall - 2e-3 for wall in walls]))
    aside = Evaluated(share=9 / 19).set_aside(loop).table
    assert aside.wall_s == pytest.approx([0.01] * 1000)
    assert aside.wait_s == table.wait_s
    assert aside.cpu_s == pytest.approx([8e-3] * 1000)
    assert Evaluated().set_aside(loop) is loop


def test_a_model_of_plain_functions_is_evaluated_now_and_then() -> None:
    """No module is called: `no_grad`, every tenth step, and nothing trained that needs its result."""
    quiet = [stack(60, "main (train.py:4)", "estimate_loss (train.py:23)")]
    for rarely, share in (("if step % 10 == 0:", 0.6), ("if True:", 0.0)):
        main = MAIN.replace("if step % 10 == 0:", rarely).format(evaluate="found = estimate_loss(model)")
        sources = [
            FunctionSource("train.py", "main", 1, main),
            FunctionSource("train.py", "estimate_loss", 20, ESTIMATE),
        ]
        rest = [stack(40, "main (train.py:6)", "backward (/x/site-packages/torch/_tensor.py:1)")]
        profile = replace(run_of(), stacks=quiet + rest, sources=sources)
        assert attribute(profile, own_loop(10, BODY, wall_s=0.01)).evaluated.share == share


LIFE_LEDGER = Elapsed(
    1, first_s=3.0, last_s=8.0, exit_s=8.5, preparing_s=2.5, training_s=3.0, evaluation_s=0.5, starting_s=0.4,
    starting_evaluation_s=0.1, stopping_s=0.2, checkpoint_s=0.3, profiled_s=0.1, between_s=0.4,
)  # fmt: skip


def test_each_part_is_named_and_nothing_is_left() -> None:
    """Three seconds of training in a process that began after half a second."""
    base = run_of(cpu=1 * MS, compute=9 * MS, steps=300)
    run, trainer = replace(base.run, duration_s=9.0, pid=1), Process(1, 0, "trainer", 0.5)
    ledger = ledger_of(diagnose(replace(base, run=run, processes=[trainer], elapsed=[LIFE_LEDGER])))
    assert sum(one.share for one in ledger) == pytest.approx(1.0)
    assert sum(one.s for one in ledger) == pytest.approx(9.0)
    known = {one.part: one.s for one in ledger}
    assert list(known)[:3] == ["launching", "start-up and imports", "starting workers"], (
        "in the order of time"
    )
    assert known.pop("warm-up", 0.0) + known.pop("training steps") == pytest.approx(3.0)
    assert known == pytest.approx(
        {"launching": 0.5, "start-up and imports": 2.5, "starting workers": 0.5, "evaluation": 0.5,
         "checkpoints": 0.3, "steps under torch.profiler": 0.1, "stopping workers": 0.2, "end of epochs": 0.4,
         "after the last loop": 0.5, "shut-down": 0.5}
    )  # fmt: skip
