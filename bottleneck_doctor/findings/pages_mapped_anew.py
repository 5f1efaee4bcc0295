"""Large tensors are allocated anew in each step, and the kernel maps their pages each time.

## What it means
A block of more than some hundred kilobytes goes back to the kernel when it is freed. The next one of its size
is mapped page by page again: each first touch is a fault, and each page is zeroed before it is handed out.

## Why it costs
A fault takes about two microseconds for 4 KiB (measured: 1.7 and 2.0), mostly for zeroing: longer than the
operator that fills the page. It is CPU time in the kernel, on the thread that touches the page.

## How it is measured
System CPU and minor faults of the training process between two looks at its steps (`getrusage`).

## Thresholds
At least 256 faults and a tenth of the step in the kernel, with a fault for each 4 us of it, and three tenths
of the loop's samples in code of its own (ours): what the model allocates is torch's.

## When this advice is wrong
What reads files into fresh memory faults as well; that is the reading's price. The pages of optimizer state
and gradients are mapped in the first steps with reason.

## Prediction
Replay without the kernel's time; a third of it is left at worst (ours). Writing in place also spares the
operators some traffic, which is not counted.

## Remedies
`reuse-buffers`.

## References
getrusage(2), mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD; PyTorch, "Performance Tuning Guide", on memory
allocation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

from ..analyse.hot_lines import users_line
from ..analyse.split import own_samples
from ..model.diagnosis import Abstention, Change, Cure, Diagnosis, Finding, Turn, Work
from ..model.profile import Location
from ..model.report import Evidence, Fix
from .advice import spread
from .case import patient
from .entry import Case, Entry
from .lines import STACKS

ID = "pages-mapped-anew"
SHARE = 0.1  # of the step (ours)
MOSTLY = 0.3  # of the loop's samples in code of its own, or it is the model that allocates (ours)
LEFT = (0.33, 0.05, 0.0)  # of the kernel's time: some of it may be for other pages (ours)
SOURCE = "getrusage"
REUSE = """\
out = torch.empty(shape)                    # once, before the loop
torch.mul(x, 0.5, out=out).add_(0.1)        # in it: write into what is there"""


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when mapping pages takes a visible part of the step."""
    scenario = diagnosis.scenario
    if scenario is None:
        return Abstention(ID, "steps of a training loop")
    paging = fmean(turn.paging for turn in scenario.turns)
    share = paging / diagnosis.step_s if diagnosis.step_s > 0 else 0.0
    if share < SHARE:
        return None
    faults = [step.faults for step in diagnosis.steps if step.faults is not None]
    evidence = [Evidence("share of the step in which the kernel maps pages", "paging_share", share, SOURCE)]
    if faults:
        evidence.append(Evidence("pages newly mapped in a step", "minor_faults", fmean(faults), SOURCE))
    place, seen = _place(diagnosis)
    if place is not None and seen < MOSTLY:
        return None  # activations and gradients: torch allocates them, and nobody else can keep them
    if place is not None:
        text = "share of the loop's samples in its own code, outside of the model"
        evidence.append(Evidence(text, "hottest_share", seen, STACKS))
    reuse = Cure(
        id="reuse-buffers",
        title="write into tensors that are kept, instead of making new ones in each step",
        fix=Fix("allocate once, and compute in place or with out=", REUSE, place),
        factor=spread(scenario, *(Change(paging=left) for left in LEFT)),
        effort="hours",
        risk="a tensor that the backward pass needs must not be overwritten before it",
    )
    return Finding(ID, "host.memory", evidence, [reuse], place)


def _place(diagnosis: Diagnosis) -> tuple[Location | None, float]:
    """The line of the user's own code, outside of the model, with most samples; and the share of all such."""
    seen: Counter[Location] = Counter()
    samples = own_samples(diagnosis.profile, diagnosis.loop)
    for one in samples:
        if one.own and (line := users_line(one.stack)) is not None:
            seen[line] += one.stack.count
    if not seen:
        return None, 0.0
    whole = sum(one.stack.count for one in samples)
    return seen.most_common(1)[0][0], sum(seen.values()) / max(1, whole)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("canvases made in each step", patient(Work(1e-4), Turn(0.01, paging=0.02)), "fires",
             "reuse-buffers"),
        Case("a little of it", patient(Work(1e-4), Turn(0.01, paging=2e-4)), "silent"),
        Case("no loop was seen", replace(patient(Work(1e-4), Turn(0.01)), scenario=None), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "host.memory", examine)
