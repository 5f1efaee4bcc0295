"""Evaluation takes a large part of the run.

## What it means
Between stretches of training, a loop without backward passes goes over validation data.

## Why it costs
While it runs nothing is learned. The steady step of the training does not show it: the cost is in the run's
length.

## How it is measured
Time in loops whose steps have no backward pass, of the training's own process, against the time in training
and evaluation together. Once per pass, from the first backward pass of the run on, a hook sees whether the
forward pass records for a backward one; not where torch.compile is at work. Where the training loop itself
evaluates, without a loader, by stack samples below lines whose result nothing is trained on.

## Thresholds
More than 20 % (ours). Rarer evaluations are spoken of from three on: a single one has no interval.

## When this advice is wrong
A short profiling run may evaluate more often than the training will; a first evaluation before training (a
sanity check) is counted too. Early stopping needs its evaluations, and so does the script that was started
with them: `bdoc prove` leaves none out. Inference is not evaluation: without a training loop nothing is said.

## Prediction
Of training and evaluation together, since no training step gets faster: the sum of both over the sum less
what is saved. Rarer evaluations are yours to choose (assumed: every fifth). Without recording a forward pass
took 0.73 to 1.0 of its time (measured: a Transformer layer 0.73, tiny layers 0.77, convolutions and large
layers 0.96 to 1.0). Workers are replayed with the evaluation's own batches.

## References
PyTorch, "Grad modes" (inference_mode) and `Module.eval`; torch.utils.data on workers for the validation
loader.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH, best_setting
from ..analyse.whole_run import CAUSE, HEAVY, evaluation_share, evaluations_of, with_faster_evaluation
from ..model.code import Location
from ..model.derived import Whole
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.loops import Epochs, Loader, Loop, StepTable
from ..model.report import Evidence, Fix
from .parts.advice import loader_call, loader_with, spread, waits
from .parts.entry import Case, Entry, patient

ID = "evaluation-heavy"
RARER = (2.0, 5.0, 10.0)  # times less often (assumed; the user chooses)
UNRECORDED = (1.0, 0.9, 0.73)  # of a forward pass's time is left without autograd [catalogue F50, measured]
LOOPS = "loops without backward passes"
FORWARDS = ("forwards", "recorded_forwards")
SEVERAL = 3  # evaluations, or epochs, from which they can come less often (ours)
BY_EPOCH = ("evaluate every few epochs", "if epoch % 5 == 0: evaluate(model, val_loader)")
BY_STEP = ("evaluate after more steps", "if step % (5 * every) == 0: evaluate(model, val_loader)")
TRAINER = (BY_EPOCH[0], "Trainer(..., check_val_every_n_epoch=5)   # or limit_val_batches=0.2")
ARGUMENTS = (BY_STEP[0], 'TrainingArguments(..., eval_strategy="steps", eval_steps=5 * every)')
HOW = {"lightning": TRAINER, "pytorch_lightning": TRAINER, "transformers": ARGUMENTS}
EVALUATE = """\
model.eval()
with torch.inference_mode():             # nothing is kept for a backward pass: batches may be larger
    for x, y in val_loader: meter.update(model(x), y)"""

SELDOM = Proposal(
    id="eval-less",
    title="evaluate a fifth as often, or on a part of the data (gain of the whole run)",
    fix=Fix(*BY_EPOCH),
    risk="early stopping reacts later",
    basis="amdahl",
    scope="run",
)
UNRECORD = Proposal(
    id="eval-no-grad",
    title="evaluate in inference mode, with larger batches (gain of the whole run)",
    fix=Fix("keep nothing for a backward pass", EVALUATE),
    basis="bound",
    scope="run",
)
OWN_WORKERS = Proposal(
    id="eval-workers",
    title="give the validation loader workers of its own (gain of the whole run)",
    fix=Fix("the validation loader has none", "DataLoader(..., num_workers=2, persistent_workers=True)"),
    apply="hook",
    risk="memory grows with each worker",
    scope="run",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when evaluating takes more than a fifth of the time."""
    whole = diagnosis.whole
    if diagnosis.loop is None:
        return Abstention(ID, "a training loop")
    loops = evaluations_of(diagnosis.profile, diagnosis.loop)
    share = evaluation_share(whole)
    if share <= HEAVY:
        return None
    if not loops:
        return _within_loop(diagnosis) if whole.evaluated_at is not None else None
    main = loops[0]
    forwards, recorded = (sum(getattr(one, name) for one in loops) for name in FORWARDS)
    loader = next((one for one in diagnosis.profile.loaders if one.key == main.loader), None)
    own = diagnosis.evaluation
    waits = own.metrics["data_wait_fraction"].value if own is not None else None
    known = [
        ("share of training and evaluation that evaluation takes", "evaluation_fraction", share),
        ("time in evaluation", "evaluation_s", whole.evaluation_s),
        ("evaluations seen", "evaluations", float(whole.evaluations)),
        ("share of their time that waits for data", "evaluation_data_wait_share", waits),
    ]
    evidence = [Evidence(*one, LOOPS) for one in known if one[2] is not None]
    if forwards:
        text, hook = "share of their forward passes that record for a backward one", "hook on forward passes"
        evidence.append(Evidence(text, "recorded_share", recorded / forwards, hook))
    trained_on = loader is not None and diagnosis.loop is not None and main.loader == diagnosis.loop.loader
    if trained_on:
        evidence.append(Evidence("it goes over the data that the training uses"))
    place = None if loader is None or trained_on else loader.location
    proposals = _less(diagnosis, loader, place)
    proposals += _unrecorded(diagnosis, place) if recorded else []
    proposals += _workers(diagnosis, loader) if loader is not None and not trained_on else []
    return Finding(ID, CAUSE, evidence, proposals, place)


def _within_loop(diagnosis: Diagnosis) -> Finding:
    """The training loop evaluates a function's batches."""
    whole, place = diagnosis.whole, diagnosis.whole.evaluated_at
    share = Evidence(
        "share of training and evaluation in forward passes that nothing is trained on",
        "evaluation_fraction",
        evaluation_share(whole),
        "py-spy, training thread",
    )
    return Finding(ID, CAUSE, [share], [_rarer(whole, BY_STEP, place)], place)


def _in_run(whole: Whole, speedups: tuple[float, float, float]) -> tuple[float, float, float]:
    """What such speedups of the evaluation bring training and evaluation together."""
    low, likely, high = (with_faster_evaluation(whole, one) for one in speedups)
    return low, likely, high


def _less(diagnosis: Diagnosis, loader: Loader | None, place: Location | None) -> list[Proposal]:
    """Where there are more evaluations than one: of a single one nothing can be left out by an interval."""
    loop, whole = diagnosis.loop, diagnosis.whole
    epochs = len(loop.epochs.batches) if loop is not None else whole.evaluations
    if whole.evaluations < SEVERAL:
        return []
    through = loader.through if loader is not None else []
    known = next((HOW[name] for name in through if name in HOW), None)
    return [_rarer(whole, known or (BY_EPOCH if epochs >= SEVERAL else BY_STEP), place)]


def _rarer(whole: Whole, how: tuple[str, str], place: Location | None) -> Proposal:
    text, snippet = how
    return replace(SELDOM.at(place, snippet, text), factor=_in_run(whole, RARER))


def _unrecorded(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """Evaluation keeps what only a backward pass needs."""
    scenario = diagnosis.evaluation.scenario if diagnosis.evaluation is not None else None
    if scenario is None:
        return []
    low, likely, high = (Change(compute=left, launch=left, idle=left) for left in UNRECORDED)
    nothing = Change(compute=0.0, launch=0.0, idle=0.0)
    proposal = replace(
        UNRECORD.at(place),
        factor=_in_run(diagnosis.whole, spread(scenario, low, likely, high)),
        most=with_faster_evaluation(diagnosis.whole, gain(scenario, nothing)),
    )
    return [proposal]


def _workers(diagnosis: Diagnosis, loader: Loader) -> list[Proposal]:
    """The validation loader makes its batches while the model waits."""
    own = diagnosis.evaluation
    if own is None or own.scenario is None or loader.num_workers or not waits(own):
        return []
    best = best_setting(own.scenario)
    if gain(own.scenario, best.change) < WORTH:
        return []
    setting = {
        "num_workers": best.workers, "prefetch_factor": best.prefetch, "persistent_workers": True,
    }  # fmt: skip
    proposal = replace(
        OWN_WORKERS.at(loader.location, loader_call(loader, **setting)),
        factor=_in_run(diagnosis.whole, spread(own.scenario, Change(), best.change, best.change)),
        treatments=(loader_with(loader, **setting),),
    )
    return [proposal]


def _case(
    evaluation_s: float, recorded: int = 0, work: BatchCost | None = None, times: int = 4, loader: str = "1:2"
) -> Diagnosis:
    """Ten seconds of training, and so many of evaluation."""
    well = patient(BatchCost(1e-4), StepCost(0.01))
    own = patient(work or BatchCost(1e-4), StepCost(0.01))
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
    one = _case(evaluation_s)
    place = Location("train.py", 7, "estimate_loss")
    return replace(one, profile=replace(one.profile, loops=[]), whole=replace(one.whole, evaluated_at=place))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    late = BatchCost(0.01)
    return (
        Case("evaluation takes half of the time", _case(10.0), "fires", "eval-less"),
        Case("it records for a backward pass", _case(30.0, 2), "fires", "eval-no-grad"),
        Case("it waits for its data", _case(10.0, work=late), "fires", "eval-workers"),
        Case(
            "the only epoch is followed by the only evaluation",
            _case(10.0, 2, times=1),
            "fires",
            "eval-no-grad",
        ),
        Case(
            "the training data is gone over again", _case(10.0, work=late, loader="1:1"), "fires", "eval-less"
        ),
        Case("the training loop evaluates, without a loader", _within(10.0), "fires", "eval-less"),
        Case("evaluation takes a tenth", _case(1.0), "silent"),
        Case("inference alone", replace(_case(10.0), loop=None), "abstains"),
    )


FINDING = Entry(ID, CAUSE, examine, remedies=(SELDOM, UNRECORD, OWN_WORKERS))
