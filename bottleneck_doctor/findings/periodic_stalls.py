"""The training loop does something expensive at every n-th step, and no hook knows what.

## What it means
Steps that take much longer than the others come back at a regular distance. What they spend is neither
waiting for data nor a checkpoint, a log, a garbage collection or an evaluation loop over a loader.

## Why it costs
A stall of s seconds every k steps adds s / k to each step, and between two of them nothing shows it. Usual
suspects: plots and sample images, an evaluation without a loader, metrics over all data, a moving average of
the weights, clearing caches.

## How it is measured
From the times of the steps alone: those three times as long as usual, and well outside of the usual spread.
What grows in them is the part of the step that no hook explains. The thread's CPU clock says whether it
computes or sleeps meanwhile. Which line it is, stacks of the loop's thread and the user's source tell: what
is done at every n-th step only, or between the loops of the steps, and nothing that is trained needs.

## Thresholds
At least four stalls, five steps apart or more, most of the distances within 15 % of each other; together 5 %
of the steady time (ours). A line is named from half of the share of samples that the stalls take of the
time; the stacks' window may lie beside all of them.

## When this advice is wrong
Some algorithms do more at every n-th step by intent (a regulariser, a second network, the collection of what
is trained on next): where the result becomes part of the training, or where the line is not known, nothing is
advised. A moving average that only evaluation uses counts as beside the training.

## Prediction
A range by replay: from nothing gained, over a fifth of the stalls (an assumption: how often is yours to
choose), to none left.

## References
PyTorch Performance Tuning Guide, on work outside of the training step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

from ..analyse.attribution import attribute
from ..analyse.steps import SAMPLES_AT_LEAST
from ..model.code import FunctionSource, Location
from ..model.derived import Rhythm, Whole
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.instruments import Stack
from ..model.report import Evidence, Fix
from ..source.purpose import BESIDE, LOG, MEASURE, purpose_at
from .parts.advice import TIMES, rhythm_evidence, rhythm_of, spread
from .parts.entry import Case, Entry, given, patient, steady_steps
from .parts.lines import STACKS, named, quoted, rarely

ID = "periodic-stalls"
SHARE = 0.05  # of the steady time [contract: what limits anything]
RARER = (1.0, 0.2, 0.0)  # of the stalls are left (assumed; the user chooses)
SEEN_OF_SHARE = 0.5  # of the stalls' share of the time, in samples at one line (ours)
BESIDE_TRAINING = (BESIDE, MEASURE, LOG)

EVALUATE = "evaluate(model)"
LESS_OFTEN = Proposal(
    id="stall-less-often",
    title="do what the loop does at every n-th step less often, or beside the training",
    fix=Fix("ask how often it must run", rarely("step % 250 == 0", EVALUATE)),
    risk="whatever it shows is seen later",
    basis="amdahl",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when unexplained stalls at a regular distance take a noticeable part of the time."""
    rhythm = rhythm_of(diagnosis, "compute")
    if rhythm is None or rhythm.share < SHARE:
        return None
    evidence = [
        *rhythm_evidence(diagnosis, "compute"),
        Evidence("share of the steady time that these stalls take", "stall_share", rhythm.share, TIMES),
        Evidence("stalls seen", "stalls", float(rhythm.count), TIMES),
    ]
    if rhythm.cpu_s is not None:
        text = "time of a stall in which the loop's thread computes"
        evidence.append(Evidence(text, "stall_cpu_s", rhythm.cpu_s, "thread CPU clock"))
    seldom = _seldom(diagnosis, rhythm)
    if seldom is None:
        return Finding(ID, "host.python", evidence)
    place, share = seldom
    if place == diagnosis.whole.evaluated_at:  # evaluation-heavy says what to do
        return Finding(ID, "host.python", evidence, [], place)
    text = f"share of the loop's samples at {named(place)}, which is not done in each step"
    evidence.append(Evidence(text, "seldom_share", share, STACKS))
    evidence.append(Evidence("nothing that is trained needs what this line makes"))
    proposal = _less(given(diagnosis.scenario), rhythm, place, quoted(diagnosis, place))
    return Finding(ID, "host.python", evidence, [proposal], place)


def _seldom(diagnosis: Diagnosis, rhythm: Rhythm) -> tuple[Location, float] | None:
    """The loop's line that is done now and then, beside the training, with the share of samples in it; None
    where none holds as much as the stalls would."""
    loop = diagnosis.loop
    stacks = [one.stack for one in attribute(diagnosis.profile, loop).own]
    total = sum(stack.count for stack in stacks)
    found: Counter[Location] = Counter()
    for stack in stacks:
        purpose = purpose_at(diagnosis.profile.sources, stack)
        if purpose.seldom and purpose.caller is not None and purpose.what in BESIDE_TRAINING:
            found[purpose.caller] += stack.count
    if not found or total < SAMPLES_AT_LEAST:
        return None
    place, count = found.most_common(1)[0]
    return (place, count / total) if count >= SEEN_OF_SHARE * rhythm.share * total else None


def _less(scenario: Scenario, rhythm: Rhythm, place: Location, statement: str) -> Proposal:
    every = round(rhythm.every_steps)
    return replace(
        LESS_OFTEN.at(
            place,
            rarely(f"step % {5 * every} == 0", statement or EVALUATE),
            f"it runs at every {every}th step: ask how often it must",
        ),
        title=f"do what the loop does every {every} steps five times less often, or beside the training",
        factor=spread(scenario, *(_with(scenario, rhythm, left) for left in RARER)),
    )


def _with(scenario: Scenario, rhythm: Rhythm, left: float) -> Change:
    """Stalls computed and slept through are taken from the two parts of the loop's own turn."""
    queue, took = rhythm.queue_s or 0.0, rhythm.each_s
    computed = took - queue if rhythm.cpu_s is None else rhythm.cpu_s
    kept = _kept(
        fmean(cost.compute + cost.python + cost.launch for cost in scenario.costs), computed, rhythm, left
    )
    awake = _kept(fmean(cost.idle for cost in scenario.costs), took - queue - computed, rhythm, left)
    return Change(compute=kept, python=kept, launch=kept, idle=awake)


def _kept(part_s: float, stall_s: float, rhythm: Rhythm, left: float) -> float:
    """The share of a part of the step that is left when such a share of the stalls is."""
    gone = (1 - left) * max(0.0, stall_s) / rhythm.every_steps
    return max(0.0, 1 - gone / part_s) if part_s > 0 else 1.0


STALL = Rhythm("compute", 8, 50.0, 0.5, 0.5, 0.5, 0.0)


LOOP = """\
for step, (x, y) in enumerate(loader):
    loss = model(x, memory).square().mean()
    loss.backward()
    if step % 50 == 0:
        memory = collect(model)
    if step % 50 == 0:
        plot(model)
"""
PLOT = """\
def plot(model):
    figure.imshow(model.weight.numpy())
"""


SOURCES = [FunctionSource("train.py", "<module>", 1, LOOP), FunctionSource("train.py", "plot", 11, PLOT)]


def _case(rhythm: Rhythm, line: int = 0, below: str = "plot (train.py:12)") -> Diagnosis:
    """Steps of 10 ms, and half a second more at every fiftieth; half of the samples fell into a line."""
    sick = replace(patient(BatchCost(1e-4), StepCost(0.02)), rhythms=[rhythm])
    frames = [f"<module> (train.py:{line})", below]
    stacks = [
        Stack(1, "trainer", "MainThread", frames, 50),
        Stack(1, "trainer", "MainThread", ["<module> (train.py:2)"], 50),
    ]
    facts = replace(sick.profile, stacks=stacks, sources=SOURCES)
    return replace(sick, profile=facts) if line else sick


EVALUATED = Whole(60.0, 10.0, 10.0, evaluated_at=Location("train.py", 7, "<module>"))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("a plot every fifty steps", _case(STALL, 7), "fires", "stall-less-often"),
        Case("the loop sleeps through it", replace(_case(replace(STALL, cpu_s=0.0), 7),
             scenario=patient(BatchCost(1e-4), StepCost(0.01, idle=0.01)).scenario),
             "fires", "stall-less-often"),
        Case("what the steps train on is collected", _case(STALL, 5, "collect (train.py:40)"), "fires"),
        Case("nobody saw what it is", _case(STALL), "fires"),
        Case("the training loop evaluates there", replace(_case(STALL, 7), whole=EVALUATED), "fires"),
        Case("they are checkpoints", _case(replace(STALL, part="checkpoint")), "silent"),
        Case("they take a hundredth of the time", _case(replace(STALL, share=0.01)), "silent"),
        Case("no step was seen", replace(_case(STALL), scenario=None, steps=[]), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "host.python", examine, needs=(steady_steps,), remedies=(LESS_OFTEN,))
