"""Python code of the training loop itself, outside of model and loader, takes a visible part of the step.

## What it means
Between two operators the loop runs plain Python: metrics over lists, post-processing, bookkeeping. The model
waits for it, and so do the other cores.

## Why it costs
The interpreter takes some ten nanoseconds for each of its instructions, a hundred times what a vectorised
operator takes for the same number.

## How it is measured
One profiled step: pauses of 0.1 ms and more in which no operator ran, less what hooks know (checkpoints,
logging, collections) and less time asleep. Stacks of the loop's thread bound it, and name the line.

## Thresholds
At least 0.1 of the step (ours) in such pauses.

## When this advice is wrong
One step is a small sample: what runs every hundredth step may be in it, or missed; stacks, which see two
seconds, keep it honest. Native code that is no torch operator (NumPy, an extension) counts as Python here:
the line tells. Code that must run for each sample in Python may run in the loader's workers instead.

## Prediction
A range by replay (ours): a third of that time away at worst, 0.85 of it likely, all but a fiftieth at best.
`metrics-less`: nine of ten steps without it, if the line is a metric at all.

## Remedies
`vectorise-loop-code`, `metrics-less`.

## References
PyTorch Performance Tuning Guide; torchmetrics; NumPy, "Universal functions".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

from ..analyse.causes import gain
from ..analyse.split import is_library, own_stacks
from ..model.computing import Computing
from ..model.diagnosis import Abstention, Change, Cure, Diagnosis, Finding, Scenario, Turn
from ..model.profile import Location, Operator, Stack
from ..model.report import Evidence, Fix
from .advice import spread
from .computing import PROFILER, anatomy_like, blind, case_of
from .entry import Case, Entry

ID = "host-python-hot"
PYTHON_SHARE = 0.1  # of the step (ours)
VECTORISED = (0.67, 0.15, 0.02)  # of the Python time that is left (ours)
RARELY = (0.67, 0.1, 0.1)  # with nine of ten steps without it (ours)
INSTALLED = ("site-packages", "dist-packages", "/lib/python", "<frozen", "/bottleneck_doctor/agent/")

VECTORISE = """\
right = (logits.argmax(1) == target).sum()     # one operator for the whole batch, no .tolist(), no loop
total += right                                 # a tensor: read it with .item() once per epoch"""
SELDOM = "if step % 10 == 0:\n    measure(output, target)"


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when Python between operators takes a visible part of the step."""
    scenario = diagnosis.scenario
    missing = blind(diagnosis, ID)
    if missing is not None or scenario is None:
        return missing
    python = fmean(turn.python for turn in scenario.turns)
    share = 1 - 1 / gain(scenario, Change(python=0))
    if share < PYTHON_SHARE:
        return None
    line, seen, total = hottest(diagnosis)
    evidence = [
        Evidence("share of the step in Python between operators", "python_share", share, PROFILER),
        Evidence("time per step in it", "python_s", python, PROFILER),
    ]
    if line is not None:
        text = f"share of the loop's samples seen in {line.function}"
        evidence.append(Evidence(text, "hottest_share", seen / total, "py-spy"))
    return Finding(ID, "host.python", evidence, _cures(scenario, line), line)


def hottest(diagnosis: Diagnosis) -> tuple[Location | None, int, int]:
    """(the user's line below which most samples outside of torch fell, these samples, all of the loop's)."""
    loop = diagnosis.loop
    stacks = own_stacks(diagnosis.profile, loop) if loop is not None else []
    total = sum(stack.count for stack in stacks)
    lines: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for stack in stacks:
        mine = [frame for frame in stack.frames if not any(mark in frame for mark in INSTALLED)]
        if mine and not is_library(stack.frames[-1]):
            lines[mine[-1]] += stack.count
            functions[_function(mine[-1])] += stack.count
    if not functions:
        return None, 0, max(total, 1)
    function, seen = functions.most_common(1)[0]
    line = max((frame for frame in lines if _function(frame) == function), key=lambda frame: lines[frame])
    return _located(line), seen, total


def _function(frame: str) -> str:
    return frame.rpartition(":")[0]


def _located(frame: str) -> Location:
    name, _, rest = frame.partition(" (")
    file, _, line = rest.rstrip(")").rpartition(":")
    return Location(file, int(line) if line.isdigit() else 0, name)


def _cures(scenario: Scenario, line: Location | None) -> list[Cure]:
    vectorise, seldom = (
        spread(scenario, *(Change(python=left) for left in lefts)) for lefts in (VECTORISED, RARELY)
    )
    where = f"in {line.function}" if line is not None else "between the model's calls"
    return [
        Cure(
            id="vectorise-loop-code",
            title="compute on whole tensors what Python computes one by one",
            fix=Fix(f"replace the loop {where} by operators on the batch", VECTORISE, line),
            factor=vectorise,
            effort="hours",
            risk="check that the numbers stay the same",
            basis="range",
        ),
        Cure(
            id="metrics-less",
            title="measure every tenth step only",
            fix=Fix("if it is a metric, not a part of the training", SELDOM, line),
            factor=seldom,
            risk="a metric over a tenth of the batches is noisier",
            basis="range",
        ),
    ]


SICK = Turn(0.004, python=0.012, launch=0.001)
HEALTHY = Turn(0.02, python=0.001, launch=0.001)
MAIN = "<module> (train.py:30)"
STACKS = [
    Stack(1, "trainer", "MainThread", [MAIN, "confusion (metrics.py:7)"], 60),
    Stack(1, "trainer", "MainThread", [MAIN, "confusion (metrics.py:8)"], 20),
    Stack(1, "trainer", "MainThread", [MAIN, "run (/x/site-packages/torch/autograd/graph.py:9)"], 30),
]


def _case(turn: Turn) -> Diagnosis:
    """A loop whose Python, model and calls take ``turn``."""
    sick = case_of(turn, Computing(anatomies=[anatomy_like(turn)]), [Operator("aten::mm", 3.0, 0.003)])
    return replace(sick, profile=replace(sick.profile, stacks=STACKS))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    bare = replace(_case(SICK).profile, computing=Computing())
    return (
        Case("a confusion matrix in lists", _case(SICK), "fires", "vectorise-loop-code"),
        Case("it need not be measured each step", _case(SICK), "fires", "metrics-less"),
        Case("the model computes", _case(HEALTHY), "silent"),
        Case("no step was profiled", replace(_case(SICK), profile=bare), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine)
