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
computes or sleeps meanwhile.

## Thresholds
At least four stalls, five steps apart or more, most of the distances within 15 % of each other; together 5 %
of the steady time (ours).

## When this advice is wrong
Some algorithms do more at every n-th step by intent (a regulariser, a second network). Then the work is
training, and the advice is only to ask whether it must be as often.

## Prediction
A range by replay: from nothing gained, over a fifth of the stalls (an assumption: how often is yours to
choose), to none left.

## Remedies
`stall-less-often`.

## References
PyTorch Performance Tuning Guide, on work outside of the training step.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..model.diagnosis import Abstention, Change, Cure, Diagnosis, Finding, Scenario, Turn, Work
from ..model.report import Evidence, Fix
from ..model.rhythm import Rhythm
from .advice import spread
from .case import patient
from .entry import Case, Entry
from .stalls import TIMES, rhythm_evidence, rhythm_of

ID = "periodic-stalls"
SHARE = 0.05  # of the steady time [contract: what limits anything]
RARER = (1.0, 0.2, 0.0)  # of the stalls are left (assumed; the user chooses)
LESS = "if step % {} == 0:        # before: {}"


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when unexplained stalls at a regular distance take a noticeable part of the time."""
    if diagnosis.scenario is None or not diagnosis.steps:
        return Abstention(ID, "steps of a training loop")
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
    return Finding(ID, "host.python", evidence, [_less(diagnosis.scenario, rhythm)])


def _less(scenario: Scenario, rhythm: Rhythm) -> Cure:
    every = round(rhythm.every_steps)
    low, likely, high = (_with(scenario, rhythm, left) for left in RARER)
    return Cure(
        id="stall-less-often",
        title=f"do what the loop does every {every} steps five times less often, or beside the training",
        fix=Fix(
            "find what runs at every n-th step, and ask how often it must", LESS.format(5 * every, every)
        ),
        factor=spread(scenario, low, likely, high),
        risk="whatever it shows is seen later",
        basis="range",
    )


def _with(scenario: Scenario, rhythm: Rhythm, left: float) -> Change:
    """Stalls computed and slept through are taken from the two parts of the loop's own turn."""
    queue, took = rhythm.queue_s or 0.0, rhythm.each_s
    computed = took - queue if rhythm.cpu_s is None else rhythm.cpu_s
    kept = _kept(
        fmean(turn.compute + turn.python + turn.launch for turn in scenario.turns), computed, rhythm, left
    )
    awake = _kept(fmean(turn.idle for turn in scenario.turns), took - queue - computed, rhythm, left)
    return Change(compute=kept, python=kept, launch=kept, idle=awake)


def _kept(part_s: float, stall_s: float, rhythm: Rhythm, left: float) -> float:
    """The share of a part of the step that is left when such a share of the stalls is."""
    gone = (1 - left) * max(0.0, stall_s) / rhythm.every_steps
    return max(0.0, 1 - gone / part_s) if part_s > 0 else 1.0


STALL = Rhythm("compute", 8, 50.0, 0.5, 0.5, 0.5, 0.0)


def _case(rhythm: Rhythm) -> Diagnosis:
    """Steps of 10 ms, and half a second more at every fiftieth."""
    return replace(patient(Work(1e-4), Turn(0.02)), rhythms=[rhythm])


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("half a second every fifty steps", _case(STALL), "fires", "stall-less-often"),
        Case("the loop sleeps through it", replace(_case(replace(STALL, cpu_s=0.0)),
             scenario=patient(Work(1e-4), Turn(0.01, idle=0.01)).scenario), "fires", "stall-less-often"),
        Case("they are checkpoints", _case(replace(STALL, part="checkpoint")), "silent"),
        Case("they take a hundredth of the time", _case(replace(STALL, share=0.01)), "silent"),
        Case("no step was seen", replace(_case(STALL), scenario=None, steps=[]), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "host.python", examine)
