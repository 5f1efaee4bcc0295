"""Evaluation takes a large part of the run.

## What it means
Between stretches of training, a loop without backward passes goes over validation data.

## Why it costs
While it runs nothing is learned. The steady step of the training does not show it: the cost is in the run's
length.

## How it is measured
Time in loops whose steps have no backward pass, of the training's own process, against the time in training
and evaluation together.

## Thresholds
More than 20 % (ours).

## When this advice is wrong
A short profiling run may evaluate more often than the training will; a first evaluation before training (a
sanity check) is counted too. Early stopping needs its evaluations. Inference is not evaluation: without a
training loop nothing is said.

## Prediction
None for the step, which stays what it is: the remedies' factor is 1. What evaluation takes of the run is in
the evidence, and is the most that can be saved.

## Remedies
`eval-less`, `eval-no-grad`, `eval-workers`.

## References
PyTorch, "Grad modes" (inference_mode) and `Module.eval`; torch.utils.data on workers for the validation
loader.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, Cure, Diagnosis, Finding, Turn, Work
from ..model.profile import Epochs, Loader, Loop, StepTable
from ..model.report import Evidence, Fix
from .advice import WAIT_SHARE, loader_call
from .case import patient
from .entry import Case, Entry

SHARE = 0.2  # of training and evaluation [catalogue F50, ours]
SAME_STEP = (1.0, 1.0, 1.0)  # the training step does not change
LOOPS = "loops without backward passes"
EVALUATE = """\
model.eval()
with torch.inference_mode():             # nothing is kept for a backward pass: batches may be larger
    for x, y in val_loader: meter.update(model(x), y)"""


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when evaluating takes more than a fifth of the time."""
    training = diagnosis.loop
    if training is None:
        return Abstention("evaluation-heavy", "a training loop over a loader")
    loops = [one for one in diagnosis.profile.loops if one.role == "evaluation" and one.pid == training.pid]
    took_s = sum(one.wall_s for one in loops)
    whole_s = took_s + training.wall_s
    if took_s <= SHARE * whole_s:
        return None
    main = max(loops, key=lambda one: one.wall_s)
    loader = next((one for one in diagnosis.profile.loaders if one.key == main.loader), None)
    waits = main.wait_s / main.wall_s
    known = (
        ("share of training and evaluation that evaluation takes", "evaluation_fraction", took_s / whole_s),
        ("time in evaluation", "evaluation_s", took_s),
        ("evaluations seen", "evaluations", float(len(main.epochs.t))),
        ("share of their time that waits for data", "evaluation_data_wait", waits),
    )
    evidence = [Evidence(*one, LOOPS) for one in known]
    place = loader.location if loader is not None else None
    cures = [
        Cure("eval-less", "evaluate less often, or on a part of the data",
             Fix("evaluate every few epochs", "if epoch % 5 == 0: evaluate(model, val_loader)", place),
             factor=SAME_STEP, apply="hook~", risk="early stopping reacts later"),
        Cure("eval-no-grad", "evaluate in inference mode, with larger batches",
             Fix("keep nothing for a backward pass", EVALUATE, place), factor=SAME_STEP),
    ]  # fmt: skip
    if loader is not None and not loader.num_workers and waits > WAIT_SHARE:
        workers = max(1, round(diagnosis.host.cores) - 1)
        call = loader_call(loader, num_workers=workers, persistent_workers=True)
        cures.append(Cure("eval-workers", "give the validation loader workers of its own",
                          Fix("the validation loader has none", call, place), factor=SAME_STEP))  # fmt: skip
    return Finding("evaluation-heavy", "host.evaluation", evidence, cures, place)


def _case(evaluation_s: float, training: bool = True) -> Diagnosis:
    """Ten seconds of training, and so many of evaluation."""
    well = patient(Work(1e-4), Turn(0.01))
    assert well.loop is not None
    epochs = Epochs([0.0], [0.0], [0.0], [100])
    loop = Loop("1:2", 1, 0, "evaluation", 100, evaluation_s, 0.4 * evaluation_s, epochs, StepTable())
    loaders = [*well.profile.loaders, Loader("1:2", "dataloader", 1, "Held out")]
    facts = replace(well.profile, loops=[loop], loaders=loaders)
    return replace(well, profile=facts, loop=replace(well.loop, wall_s=10.0) if training else None)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("evaluation takes half of the time", _case(10.0), "fires"),
        Case("evaluation takes a tenth", _case(1.0), "silent"),
        Case("inference alone", _case(10.0, training=False), "abstains"),
    )


FINDING = Entry("evaluation-heavy", "host.evaluation", examine)
