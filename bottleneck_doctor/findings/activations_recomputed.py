"""Activations are computed twice to save memory, of which the machine has plenty.

## What it means
Activation checkpointing throws away what the forward pass has computed, and computes it again for the
backward pass. It buys memory with time.

## Why it costs
One more forward pass of the wrapped blocks in every step.

## How it is measured
Stack samples of the training thread within `torch.utils.checkpoint`, where it repeats a forward pass. On
accelerators the thread does not wait for what it repeats: there `gpu-memory-tradeoff` reads the trace.

## Thresholds
A tenth of the samples of training (ours), and at least 0.4 of the machine's memory, or of the job's limit, is
left [catalogue F43].

## When this advice is wrong
Without it memory rises by the activations that are kept, which cannot be seen while they are thrown away: the
first step shows whether they fit. Wrapping only some of the blocks is the way between.

## Prediction
By replay: half to all of the repeated passes, likely all (ours).

## References
torch.utils.checkpoint; Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.attribution import attribute
from ..analyse.steps import SAMPLES_AT_LEAST
from ..model.diagnosis import Abstention, BatchCost, Diagnosis, Finding, StepCost
from ..model.instruments import Series, Stack
from ..model.report import Evidence
from .parts.advice import memory_left, spread
from .parts.computing import own_s, spared
from .parts.entry import Case, Entry, cpu_loop, given, patient
from .parts.remedies import KEEP_ACTIVATIONS

ID = "activations-recomputed"
SHARE = 0.1  # of the samples of training (ours)
LEFT = 0.4  # of the memory [catalogue F43]
SPARED = (0.5, 1.0, 1.0)  # of the repeated passes: low, likely, high (ours)
TORCHS = "/torch/utils/checkpoint.py"
AGAIN = ("recompute_fn", "CheckpointFunction.backward")
PASS = "/torch/autograd/"  # within CheckpointFunction.backward: the backward pass of what was repeated


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when forward work is repeated while memory is left."""
    scenario = given(diagnosis.scenario)
    samples = [one.stack for one in attribute(diagnosis.profile, diagnosis.loop).own]
    seen = sum(one.count for one in samples)
    if seen < SAMPLES_AT_LEAST:
        return Abstention(ID, "stack samples of the training loop (py-spy)")
    share = sum(one.count for one in samples if _repeats(one)) / seen
    if share < SHARE:
        return None
    machine, left = diagnosis.profile.machine, memory_left(diagnosis)
    whole = machine.memory_limit_bytes or machine.memory_bytes
    if left is None or not whole:
        return Abstention(ID, "the memory that is left")
    if left < LEFT * whole:
        return None
    evidence = [
        Evidence("share of training in which forward passes are repeated", "recompute_share", share,
                 "stack samples"),
        Evidence("memory left at the least", "memory_left_share", min(1.0, left / whole), "/proc/meminfo"),
    ]  # fmt: skip
    low, likely, high = (spared(scenario, part * share * own_s(scenario)) for part in SPARED)
    proposal = replace(KEEP_ACTIVATIONS, factor=spread(scenario, low, likely, high))
    return Finding(ID, "model.compute", evidence, [proposal])


def _repeats(stack: Stack) -> bool:
    """Whether a forward pass is repeated in there, and not the backward pass that asked for it."""
    frames = stack.frames
    places = [n for n, one in enumerate(frames) if TORCHS in one and any(name in one for name in AGAIN)]
    return bool(places) and not any(PASS in one for one in frames[places[-1] :])


GIB = 2**30
STEP = "main (/data/train.py:41)"
FORWARD = "Block.forward (/data/train.py:12)"
BACKWARD = "backward (/x/site-packages/torch/autograd/__init__.py:371)"
FRAMES = {
    "forward": [STEP, FORWARD],
    "repeated": [STEP, BACKWARD, f"recompute_fn (/x/site-packages{TORCHS}:1688)", FORWARD],
    "reentrant": [STEP, BACKWARD, f"CheckpointFunction.backward (/x/site-packages{TORCHS}:270)", FORWARD],
    "passed": [STEP, BACKWARD, f"CheckpointFunction.backward (/x/site-packages{TORCHS}:290)", BACKWARD],
}


def _case(counts: dict[str, int], left: int | None = 16) -> Diagnosis:
    """Samples by what the loop's thread did, on a machine of 24 GiB; ``left`` in GiB."""
    base = patient(BatchCost(2e-4), StepCost(0.1))
    stacks = [Stack(1, "trainer", "MainThread", FRAMES[name], count) for name, count in counts.items()]
    values: dict[str, list[float | None]] = {}
    if left is not None:
        values["memory_available_bytes"] = [float(left * GIB)] * 2
    machine = replace(base.profile.machine, memory_bytes=24 * GIB)
    return replace(
        base, profile=replace(base.profile, stacks=stacks, machine=machine, series=Series([0.0, 1.0], values))
    )


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    third = {"forward": 60, "repeated": 30}
    return (
        Case("a third of the step is repeated", _case(third), "fires", "checkpointing-off"),
        Case("repeated by the older way", _case({"forward": 60, "reentrant": 30}), "fires"),
        Case("that way's own backward passes", _case({"forward": 60, "passed": 30}), "silent"),
        Case("nothing is repeated", _case({"forward": 90}), "silent"),
        Case("memory is needed", _case(third, 6), "silent"),
        Case("nobody asked how much memory is left", _case(third, None), "abstains"),
        Case("hardly a sample", _case({"repeated": 3}), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(cpu_loop,), remedies=(KEEP_ACTIVATIONS,))
