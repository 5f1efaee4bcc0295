"""Python code of the training loop itself, outside of model and loader, takes a visible part of the step.

## What it means
Between two operators the loop runs plain Python: metrics over lists, post-processing, bookkeeping. The model
waits for it, and so do the other cores.

## Why it costs
The interpreter takes some ten nanoseconds for each of its instructions, a hundred times what a vectorised
operator takes for the same number.

## How it is measured
One profiled step: pauses of 0.1 ms and more in which no operator ran, less what hooks know (checkpoints,
logging, collections) and less time asleep. Stacks of the loop's thread bound it, and name the line. The
source of the functions seen says what the line is for: whether its result flows into the loss, is written
out, or is a measure that nothing else needs, and whether it runs in a loop within the step.

## Thresholds
At least 0.1 of the step (ours) in such pauses; four fifths of a function's samples for one purpose (ours).

## When this advice is wrong
One step is a small sample: what runs every hundredth step may be in it, or missed; stacks, which see two
seconds, keep it honest. Native code that is no torch operator (NumPy, an extension) counts as Python here:
the line tells. Code that must run for each sample in Python may run in the loader's workers instead. What a
name means is not followed beyond a function: where the source does not tell, only the place is said.

## Prediction
A range by replay (ours): of the line's time a third away at worst, 0.85 of it likely, all but a fiftieth at
best; of a measure, which operators compute for all elements at once, two thirds at worst and 0.92 likely.
Only what the source proves is offered: that the line runs in a loop within the step, or that nothing which is
trained needs what it measures. `metrics-less`: nine of ten steps without it.

## References
PyTorch Performance Tuning Guide; torchmetrics; NumPy, "Universal functions".
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from statistics import fmean

from ..analyse.attribution import attribute
from ..analyse.between_epochs import epoch_ends, stacks_between
from ..analyse.causes import gain
from ..analyse.loop_cpu import is_library, witnessed
from ..model.code import FunctionSource, Location
from ..model.computing import Computing
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.instruments import Operator, Stack
from ..model.report import Evidence, Fix
from ..source import code
from ..source.frames import parse_frame
from ..source.purpose import BESIDE, LOG, MEASURE, TRAINING, Purpose, purpose_of
from .parts.advice import spread
from .parts.computing import PROFILER, anatomy_like, case_of
from .parts.entry import Case, Entry, given, profiled_cpu_step
from .parts.lines import STACKS, quoted, rarely

ID = "host-python-hot"
ENDS = "hooks on the loader"
PYTHON_SHARE = 0.1  # of the step (ours)
VECTORISED = (0.67, 0.15, 0.02)  # of the line's time that is left (ours)
MEASURED = (0.33, 0.08, 0.02)  # the same of a measure: nothing and 0.1 of two were left (ours)
RARELY = (0.67, 0.1, 0.1)  # with nine of ten steps without it (ours)
INSTALLED = ("site-packages", "dist-packages", "/lib/python", "<frozen", "/bottleneck_doctor/agent/")

COUNTED = """\
right = (logits.argmax(1) == target).sum()     # one operator for the whole batch, no .tolist(), no loop
total += right                                 # a tensor: read it with .item() once per epoch"""
ARRAYS = """\
state = torch.stack(states)                    # once: what the loop goes over, side by side in one tensor
state = state + rate * change(state)           # and each of its lines works on all of them at once"""
AVERAGED = """\
torch._foreach_lerp_(averages, list(model.parameters()), 1 - decay)     # one call for all tensors
# or torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))"""
WEIGHTS = re.compile(r"\b(named_)?parameters\(|state_dict\(")
EVERY_TENTH = "step % 10 == 0"
METRIC = "measure(output, target)"
VECTORISE = Proposal(
    id="vectorise-loop-code",
    title="compute on whole tensors what Python computes one by one",
    fix=Fix("replace the loop by operators on all elements", ARRAYS),
    effort="hours",
    risk="check that the numbers stay the same",
    basis="bound",
)
SELDOM = Proposal(
    id="metrics-less",
    title="measure every tenth step only",
    fix=Fix("nothing that is trained needs it", rarely(EVERY_TENTH, METRIC)),
    risk="a metric over a tenth of the batches is noisier",
    basis="amdahl",
)
SEEN = {
    TRAINING: "what this line makes becomes part of the loss",
    MEASURE: "nothing that is trained needs what this line measures",
    BESIDE: "nothing that is trained needs what this line makes",
}


@dataclass(frozen=True)
class Hot:
    """The line with most of the loop's samples outside of torch: how many of all, and what it is for."""

    line: Location
    seen: int
    total: int
    purpose: Purpose

    @property
    def share(self) -> float:
        """Of the loop's samples."""
        return self.seen / self.total


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when Python between operators takes a visible part of the step."""
    scenario, hot = given(diagnosis.scenario), hottest(diagnosis)
    python = fmean(cost.python for cost in scenario.costs)
    share = 1 - 1 / gain(scenario, Change(python=0))
    if share < PYTHON_SHARE or (hot is not None and hot.purpose.what == LOG):
        return None  # what is logged is a finding of its own
    evidence = [
        Evidence("share of the step in Python between operators", "python_share", share, PROFILER),
        Evidence("time per step in it", "python_s", python, PROFILER),
    ]
    ends = epoch_ends(diagnosis.profile, diagnosis.loop).share
    if ends >= PYTHON_SHARE:
        evidence.append(Evidence("share of the time that passes between epochs", "between_share", ends, ENDS))
    if hot is None:
        return Finding(ID, "host.python", evidence)
    text = f"share of the loop's samples seen in {hot.line.function}"
    evidence.append(Evidence(text, "hottest_share", hot.share, STACKS))
    if hot.purpose.what in SEEN:
        evidence.append(Evidence(SEEN[hot.purpose.what]))
    if hot.purpose.repeats:
        evidence.append(Evidence("it runs in a loop within the step"))
    return Finding(ID, "host.python", evidence, _proposals(diagnosis, scenario, hot), hot.line)


def python_or_profile(diagnosis: Diagnosis) -> str | None:
    """Where no step was profiled, stacks that saw who held the interpreter's lock are enough."""
    costs = diagnosis.scenario.costs if diagnosis.scenario is not None else ()
    return None if any(cost.python > 0 for cost in costs) else profiled_cpu_step(diagnosis)


def hottest(diagnosis: Diagnosis) -> Hot | None:
    """The user's function below which most samples outside of torch fell, with its line."""
    loop = diagnosis.loop
    stacks = [one.stack for one in attribute(diagnosis.profile, loop).own]
    stacks += stacks_between(diagnosis.profile, loop)
    below: dict[str, list[tuple[str, Stack]]] = {}
    for stack in stacks:
        mine = [frame for frame in stack.frames if not any(mark in frame for mark in INSTALLED)]
        if mine and not is_library(stack.frames[-1]):
            below.setdefault(mine[-1].rpartition(":")[0], []).append((mine[-1], stack))
    if not below:
        return None
    most = max(below.values(), key=lambda seen: sum(stack.count for _, stack in seen))
    lines: Counter[str] = Counter()
    for frame, stack in most:
        lines[frame] += stack.count
    purpose = purpose_of(diagnosis.profile.sources, [stack for _, stack in most])
    total, seen = sum(stack.count for stack in stacks), sum(lines.values())
    if seen < PYTHON_SHARE * total:
        return None
    frame = lines.most_common(1)[0][0]
    return Hot(parse_frame(frame) or Location("", 0, frame), seen, total, purpose)


def _proposals(diagnosis: Diagnosis, scenario: Scenario, hot: Hot) -> list[Proposal]:
    """Only what the source proves: that the line loops, and that it is a measure."""
    loop = diagnosis.loop
    allowed = witnessed(diagnosis.profile, loop) if loop is not None else 1.0
    mine = min(1.0, hot.share / max(allowed, 1e-9))  # of the Python
    measure = hot.purpose.what == MEASURE
    vectorise = replace(
        VECTORISE.at(
            hot.line,
            COUNTED if measure else AVERAGED if _goes_over_weights(diagnosis, hot) else ARRAYS,
            f"replace the loop in {hot.line.function} by operators on all elements",
        ),
        factor=_factor(scenario, mine, MEASURED if measure else VECTORISED),
        most=max(gain(scenario, Change(python=1 - mine)), 1 / max(1 - hot.share, 0.01)),
    )
    metric = quoted(diagnosis, hot.purpose.caller) or METRIC
    seldom = replace(
        SELDOM.at(hot.purpose.caller, rarely(EVERY_TENTH, metric)), factor=_factor(scenario, mine, RARELY)
    )
    return [vectorise] * hot.purpose.repeats + [seldom] * measure


def _goes_over_weights(diagnosis: Diagnosis, hot: Hot) -> bool:
    """Whether it goes over the model's weights, for something beside the training: a mean of them."""
    source = code.source_at(diagnosis.profile.sources, hot.line)
    return hot.purpose.what == BESIDE and source is not None and WEIGHTS.search(source.text) is not None


def _factor(
    scenario: Scenario, share: float, lefts: tuple[float, float, float]
) -> tuple[float, float, float]:
    return spread(scenario, *(Change(python=1 - share * (1 - left)) for left in lefts))


SICK = StepCost(0.004, python=0.012, launch=0.001)
HEALTHY = StepCost(0.02, python=0.001, launch=0.001)
UNSEEN = StepCost(0.022)
LOOP = """\
for x, y in loader:
    logits = model(prepare(x))
    loss = cross_entropy(logits, y)
    loss.backward()
    confusion(logits, y)
    weights_file.write(dump(model))
    average(model)
"""
EMA = """\
def average(model):
    for name, weight in model.state_dict().items():
        shadow[name] = 0.9 * shadow[name] + 0.1 * weight.detach()
"""
CONFUSION = """\
def confusion(logits, y):
    for scores, true in zip(logits.tolist(), y.tolist()):
        table[true][scores.index(max(scores))] += 1
"""
PREPARE = """\
def prepare(x):
    return canvas(x).clamp(0, 1)
"""
SOURCES = [
    FunctionSource("train.py", "<module>", 26, LOOP),
    FunctionSource("metrics.py", "confusion", 6, CONFUSION),
    FunctionSource("render.py", "prepare", 3, PREPARE),
    FunctionSource("ema.py", "average", 1, EMA),
    FunctionSource("dump.py", "dump", 1, CONFUSION.replace("confusion", "dump")),
]
TORCH = "run (/x/site-packages/torch/autograd/graph.py:9)"


def _case(cost: StepCost, line: int = 30, below: str = "confusion (metrics.py:8)") -> Diagnosis:
    """A loop whose Python, model and calls take ``cost``, seen at a line and in what it calls."""
    sick = case_of(cost, Computing(anatomies=[anatomy_like(cost)]), [Operator("aten::mm", 3.0, 0.003)])
    main = f"<module> (train.py:{line})"
    stacks = [
        Stack(1, "trainer", "MainThread", [main, below], 80),
        Stack(1, "trainer", "MainThread", ["<module> (train.py:29)", TORCH], 30),
    ]
    return replace(sick, profile=replace(sick.profile, stacks=stacks, sources=SOURCES))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    bare = replace(_case(SICK).profile, computing=Computing())
    return (
        Case("a confusion matrix in lists", _case(SICK), "fires", "vectorise-loop-code"),
        Case("it need not be measured each step", _case(SICK), "fires", "metrics-less"),
        Case("weights are averaged", _case(SICK, 32, "average (ema.py:3)"), "fires", "vectorise-loop-code"),
        Case("told by stacks alone", replace(_case(SICK), profile=bare), "fires", "vectorise-loop-code"),
        Case("the batch is prepared", _case(SICK, 27, "prepare (render.py:4)"), "fires"),
        Case("the weights are written out", _case(SICK, 31, "dump (dump.py:3)"), "silent"),
        Case("the model computes", _case(HEALTHY), "silent"),
        Case("no step was profiled", replace(_case(UNSEEN), profile=bare), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine, needs=(python_or_profile,), remedies=(VECTORISE, SELDOM))
