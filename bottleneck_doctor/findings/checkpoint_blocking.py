"""Saving the model stops the training loop.

## What it means
The loop serialises the weights and writes them, and goes on when the file is complete.

## Why it costs
A checkpoint of s seconds every k steps adds s / k to each step. Half of s is copying and pickling on one
core; the rest waits for the file system, and longer once the kernel's buffers for unwritten data are full.

## How it is measured
Wall and CPU time inside `torch.save` and safetensors' `save_file`, and of forced flushes of what they wrote,
in the loop's own thread, from the first call to the last.

## Thresholds
More than 2 % of the steady step (ours), from at least two checkpoints: how often one comes cannot be told
from a single one.

## When this advice is wrong
Fewer checkpoints lose more work when the job dies: spot instances and flaky clusters need them. A short
profiling run may checkpoint more often than the training will.

## Prediction
Replay with a tenth of the checkpoints (an assumption: the interval is yours to choose), or with a third of
their time when only a copy is taken in the loop (measured: copies took 7 to 47 % of a save, kept buffers 14
%). A copy in flight needs memory for the weights once more.

## References
torch.distributed.checkpoint.async_save; Mohan et al., "CheckFreq", FAST 2021.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.code import Location
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.instruments import Operation
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import operations_of, spread, step_share
from .parts.entry import Case, Entry, given, loader_loop, patient
from .parts.lines import quoted

ID = "checkpoint-blocking"
SHARE = 0.02  # of the step [catalogue F27, ours]
SEEN_AT_LEAST = 2  # checkpoints, or the interval between them is not known
RARER = 0.1  # of the checkpoints are left: every tenth (assumed; the user chooses)
COPIED = (0.5, 0.33, 0.07)  # of a save's time is the copy [measured: 0.47; catalogue F27: 33 of 105 ms; 0.07]
HOOKS = "hooks on torch.save, fsync"

LESS = "if step % (10 * every) == 0:             # ten times rarer; or by the clock, every 15 minutes"
WRITER = """\
if writer is not None: writer.join()     # one at a time
state = {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
writer = threading.Thread(target=save_and_rename, args=(state, path))
writer.start()                           # writes to a temporary file, then renames it"""
SAVE = "torch.save(model.state_dict(), path)"
SELDOM = Proposal(
    id="checkpoint-less",
    title="save a checkpoint ten times less often",
    fix=Fix("save by the clock, or every tenth time", f"{LESS}\n    {SAVE}"),
    change=Change(checkpoint=RARER),
    apply="hook~",
    risk="up to ten times as much work is lost when the job dies",
    treatments=(Treatment("rare_saving", {"every": round(1 / RARER)}),),
)
ASIDE = Proposal(
    id="checkpoint-async",
    title="copy the weights in the loop and let a thread write them",
    fix=Fix("take a snapshot, write it beside the training", WRITER),
    basis="bound",
    apply="hook~",
    effort="hours",
    risk="memory for one more copy of the weights; the newest checkpoint may be incomplete after a crash",
    treatments=(Treatment("saving_aside"),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when checkpoints take a noticeable part of the steady step."""
    share = step_share(diagnosis, "checkpoint")
    if share <= SHARE:
        return None
    saves = operations_of(diagnosis, "checkpoint")
    count = max((one.count for one in saves), default=0)  # a line that writes, another that flushes: one
    if count < SEEN_AT_LEAST:
        return Abstention(ID, "a second checkpoint: how often one comes is not known")
    total_s = sum(one.total_s for one in saves)
    place = _place(saves)
    cpu_share = sum(one.cpu_s for one in saves) / max(total_s, 1e-9)
    known = (
        ("share of the step spent on checkpoints", "checkpoint_share", share),
        ("checkpoints seen", "checkpoints", float(count)),
        ("steps between two of them", "checkpoint_interval_steps", given(diagnosis.loop).steps / count),
        ("time per checkpoint", "checkpoint_s", total_s / count),
        ("share of that on the CPU", "checkpoint_cpu_share", cpu_share),
    )
    evidence = [Evidence(*one, HOOKS) for one in known]
    proposals = _proposals(diagnosis, given(diagnosis.scenario), place)
    return Finding(ID, "host.checkpoint", evidence, proposals, place)


def _place(saves: list[Operation]) -> Location | None:
    """The line that writes: a flush of the same file stands below it."""
    places = [one.location for one in saves if one.location is not None]
    near = [one for one in places if (one.file, one.function) == (places[0].file, places[0].function)]
    return min(near, key=lambda one: one.line, default=None)


def _proposals(diagnosis: Diagnosis, scenario: Scenario, place: Location | None) -> list[Proposal]:
    line = quoted(diagnosis, place) or SAVE
    aside = replace(
        ASIDE.at(place),
        factor=spread(scenario, *(Change(checkpoint=left) for left in COPIED)),
        most=gain(scenario, Change(checkpoint=0.0)),
    )
    return [SELDOM.at(place, f"{LESS}\n    {line}"), aside]


SAVES = Operation("checkpoint", 1, 0, "save", 40, 2.0, 1.2, 0.09, Location("train.py", 52, "main"))
ONCE = (replace(SAVES, count=1), replace(SAVES, count=1, location=Location("train.py", 54, "main")))
SICK = StepCost(0.003, checkpoint=0.005)


def _case(*saves: Operation, cost: StepCost = SICK) -> Diagnosis:
    return patient(BatchCost(1e-5), cost, operations=saves)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    rare = StepCost(0.003, checkpoint=3e-5)
    return (
        Case("a save every ten steps", _case(SAVES), "fires", "checkpoint-less"),
        Case("the copy alone would do", _case(SAVES), "fires", "checkpoint-async"),
        Case("a save per epoch", _case(SAVES, cost=rare), "silent"),
        Case("one save so far, and its flush", _case(*ONCE), "abstains"),
        Case("one save so far", _case(ONCE[0]), "abstains"),
        Case("no loop was seen", replace(_case(), loop=None), "abstains"),
    )


FINDING = Entry(ID, "host.checkpoint", examine, needs=(loader_loop,), remedies=(SELDOM, ASIDE))
