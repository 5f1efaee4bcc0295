"""Cases of the findings in saving_logging.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, StepCost, Whole
from bottleneck_doctor.model.instruments import Operation, Stack
from bottleneck_doctor.model.loops import Epochs, Loader, Loop, StepTable
from tests.findings.builders import Case, abstains, fires, silent, steady_run

# checkpoint-blocking
SAVES = Operation("checkpoint", 1, 0, "save", 40, 2.0, 1.2, 0.09, Location("train.py", 52, "main"))
ONCE = (replace(SAVES, count=1), replace(SAVES, count=1, location=Location("train.py", 54, "main")))
CHECKPOINT_SICK = StepCost(0.003, checkpoint=0.005)


def _checkpoint_case(*saves: Operation, cost: StepCost = CHECKPOINT_SICK) -> Diagnosis:
    return steady_run(BatchCost(1e-5), cost, operations=saves)


def checkpoint_blocking() -> tuple[Case, ...]:
    rare = StepCost(0.003, checkpoint=3e-5)
    return (
        fires("a save every ten steps", _checkpoint_case(SAVES), "checkpoint-less checkpoint-async"),
        silent("a save per epoch", _checkpoint_case(SAVES, cost=rare)),
        abstains("one save so far, and its flush", _checkpoint_case(*ONCE)),
    )


# logging-blocking
FLUSHES = Operation("logging", 1, 0, "emit", 1200, 0.48, 0.06, 0.01, Location("train.py", 40, "main"))
PAINTED = replace(FLUSHES, cpu_s=0.47)
LOG_SICK = StepCost(0.0006, logging=0.0012)
LOOP = """\
for x, y in loader:
    loss = model(x, y)
    loss.backward()
    track(file, model)
"""
TRACK = """\
def track(file, model):
    file.write(json.dumps({name: one.tolist() for name, one in model.named_parameters()}))
"""


def _dumped() -> Diagnosis:
    """Weights are written to a file without a hook; stacks show the line."""
    sick = steady_run(BatchCost(1e-5), LOG_SICK)
    frames = ["<module> (train.py:13)", "track (train.py:2)"]
    facts = replace(
        sick.profile,
        stacks=[Stack(1, "trainer", "MainThread", frames, 60)],
        sources=[
            FunctionSource("train.py", "<module>", 10, LOOP),
            FunctionSource("train.py", "track", 1, TRACK),
        ],
    )
    return replace(sick, profile=facts)


def logging_blocking() -> tuple[Case, ...]:
    brief = StepCost(0.002, logging=5e-6)
    flushed, painted, rare = (
        steady_run(BatchCost(1e-5), cost, operations=(calls,))
        for cost, calls in ((LOG_SICK, FLUSHES), (LOG_SICK, PAINTED), (brief, FLUSHES))
    )
    return (
        fires("three flushes per step", flushed, "async-writer"),
        fires("pictures painted per step", painted, "log-every-n"),
        fires("weights dumped into a file", _dumped(), "log-every-n"),
        silent("a flush now and then", rare),
    )


# evaluation-heavy
def _evaluation_case(
    evaluation_s: float, recorded: int = 0, work: BatchCost | None = None, times: int = 4, loader: str = "1:2"
) -> Diagnosis:
    """Ten seconds of training, and ``evaluation_s`` of evaluation."""
    well = steady_run(BatchCost(1e-4), StepCost(0.01))
    own = steady_run(work or BatchCost(1e-4), StepCost(0.01))
    assert well.loop is not None
    epochs = Epochs([0.0], [0.0], [0.0], [100])
    loop = Loop(loader, 1, 0, "evaluation", 100, evaluation_s, 0.0, epochs, StepTable(),
                forwards=2, recorded_forwards=recorded)  # fmt: skip
    loaders = [*well.profile.loaders, Loader("1:2", "dataloader", 1, "Held out")]
    facts = replace(well.profile, loops=[loop], loaders=loaders)
    whole = Whole(60.0, 10.0, evaluation_s, times)
    return replace(well, profile=facts, whole=whole, evaluation=own)


def _within(evaluation_s: float) -> Diagnosis:
    """The same without an evaluation loop."""
    one = _evaluation_case(evaluation_s)
    place = Location("train.py", 7, "estimate_loss")
    return replace(one, profile=replace(one.profile, loops=[]), whole=replace(one.whole, evaluated_at=place))


def evaluation_heavy() -> tuple[Case, ...]:
    late = BatchCost(0.01)
    return (
        fires("evaluation takes half of the time", _evaluation_case(10.0), "eval-less"),
        fires("it records for a backward pass", _evaluation_case(30.0, 2), "eval-no-grad"),
        fires("it waits for its data", _evaluation_case(10.0, work=late), "eval-workers"),
        fires("one epoch, one evaluation", _evaluation_case(10.0, 2, times=1), "eval-no-grad -eval-less"),
        fires("the same data", _evaluation_case(10.0, work=late, loader="1:1"), "eval-less -eval-workers"),
        fires("the training loop evaluates, without a loader", _within(10.0), "eval-less"),
        silent("evaluation takes a tenth", _evaluation_case(1.0)),
        abstains("inference alone", replace(_evaluation_case(10.0), loop=None)),
    )
