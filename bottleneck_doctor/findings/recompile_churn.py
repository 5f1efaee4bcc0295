"""torch.compile keeps compiling while the training is under way.

## What it means
Frames are compiled again and again in the steady part of the run: shapes, flags or Python numbers keep
changing, and each change needs code of its own.

## Why it costs
One compilation takes from a tenth of a second to minutes, in the training's own thread. At the limit of eight
for one frame torch gives up and runs it without compiling.

## How it is measured
torch's own counters of compiled frames, of graph breaks and of seconds, noted when they change.

## Thresholds
Three frames or more compiled within the steady window (ours), and 2 % of its time spent on it (ours).

## When this advice is wrong
Some shapes are new only once: a run that goes on for hours will have met them all. Dynamic shapes make code
that is a little slower than code for one shape.

## Prediction
Amdahl on the compiling seconds of the steady window: half of them away at worst, nine tenths likely.

## References
torch.compile, "Dynamic shapes"; torch.compiler troubleshooting, "Recompilation"; TORCH_LOGS=recompiles.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.predict import WORTH
from ..analyse.steps import seconds_in, steps_in
from ..model.computing import Compilation, Computing
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal, StepCost
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import spread
from .parts.computing import case_of, spared
from .parts.entry import Case, Entry, cpu_loop, given

ID = "recompile-churn"
FRAMES = 3  # compiled in the steady window (ours)
COMPILING_SHARE = 0.02  # of the steady window (ours)
AWAY = (0.5, 0.9, 1.0)  # of the compiling seconds (ours)
COUNTERS = "torch._dynamo counters"

ONE_CODE = """\
model.compile(dynamic=True)                         # one code for all lengths; or mark_dynamic(x, 0)
loader = DataLoader(..., drop_last=True)            # no ragged last batch
# TORCH_LOGS=recompiles python train.py             says what changed"""
DYNAMIC = Proposal(
    id="compile-dynamic",
    title="compile once for all shapes",
    fix=Fix("where the model is compiled", ONE_CODE),
    apply="hook~",
    risk="code for changing shapes is a little slower than code for one",
    basis="amdahl",
    treatments=(Treatment("dynamic"),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the steady part of the run keeps compiling."""
    scenario, steps = given(diagnosis.scenario), diagnosis.steps
    if not steps:
        return None
    found = _within(diagnosis, steps[0].t - steps[0].wall, steps[-1].t)
    if found is None:
        return None
    frames, breaks, seconds = found
    count = steps_in(steps)
    share = seconds / max(seconds_in(steps), 1e-12)
    if frames < FRAMES or share < COMPILING_SHARE:
        return None
    factor = spread(scenario, *(spared(scenario, part * seconds / count) for part in AWAY))
    if factor[1] < WORTH:
        return None
    evidence = [
        Evidence("frames compiled in the steady window", "compiled_frames", float(frames), COUNTERS),
        Evidence("share of its time spent compiling", "compiling_share", share, COUNTERS),
        Evidence("graph breaks met meanwhile", "graph_breaks", float(breaks), COUNTERS),
    ]
    return Finding(ID, "host.python", evidence, [replace(DYNAMIC, factor=factor)])


def _within(diagnosis: Diagnosis, begin: float, end: float) -> tuple[int, int, float] | None:
    """(frames, graph breaks, seconds) that were added in a stretch of time; None where nothing compiles."""
    known, pid = diagnosis.profile.computing.compilations, given(diagnosis.loop).pid
    mine = next((one for one in known if one.pid == pid), None)
    if mine is None:
        return None
    before = [place for place, t in enumerate(mine.t) if t < begin]
    inside = [place for place, t in enumerate(mine.t) if begin <= t <= end]
    if not inside or not before:
        return None  # what is not known to be new may be the first compilation
    first, last = before[-1], inside[-1]
    return (
        mine.frames[last] - mine.frames[first],
        mine.breaks[last] - mine.breaks[first],
        mine.seconds[last] - mine.seconds[first],
    )


COST = StepCost(0.02)


def _case(found: Compilation | None) -> Diagnosis:
    """400 steps of 20 ms that end at 10 s."""
    sick = case_of(COST, Computing(compilations=[found] if found else []))
    return replace(sick, steps=[replace(sick.steps[0], t=2.0 + 0.02 * place) for place in range(400)])


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    early = Compilation(1, [0.5, 1.0], [1, 2], [0, 0], [0.5, 1.0])
    churn = Compilation(1, [0.5, 3.0, 5.0, 7.0], [1, 3, 5, 7], [0, 1, 2, 3], [0.5, 1.0, 1.5, 2.0])
    return (
        Case("each length is compiled anew", _case(churn), "fires", "compile-dynamic"),
        Case("compiled before the steady window", _case(early), "silent"),
        Case("nothing is compiled", _case(None), "silent"),
        Case("no loop was seen", replace(_case(churn), loop=None), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine, needs=(cpu_loop,), remedies=(DYNAMIC,))
