"""A step looks up few rows of a table, and its gradient and optimizer go through all of them.

## What it means
An embedding's gradient is a tensor as large as its table, zero but for the rows of this batch. It is filled,
exchanged between ranks, and the optimizer updates each number of the table and of its own state with it.

## Why it costs
Memory traffic: Adam reads and writes some ten times the table in each step, for a few thousand rows.

## How it is measured
After the first step of each optimizer some rows of its largest matrices' gradients are looked at, evenly
spread: how many are not all zeros. Hooks around `step` and torch.profiler say what updating and filling take.

## Thresholds
At most a tenth of the rows (ours), and a gain of 3 % [catalogue 2.3]. Weights that are also used as a layer,
an output tied to its embedding say, have a gradient in each row, and are none of these.

## When this advice is wrong
`SparseAdam` lets the moments of a row rest while it is not looked up, and knows no weight decay; the model
trains a little otherwise. `clip_grad_norm_` and some schedulers refuse sparse gradients. On accelerators rows
are not looked at: that would wait for the device.

## Prediction
By replay, of what the optimizer takes for these tables, of zeros that are filled in, and of pages that are
mapped for them: from 0.8 to all of it, likely 0.9 (measured: ×9.9 where ×9.8 was promised).

## References
torch.nn.Embedding, argument `sparse`; torch.optim.SparseAdam.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing, GradientRows, Optimizer
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from .parts.advice import spread, step_share
from .parts.computing import PROFILER, built_at, case_of, operators, optimizer_s, optimizers, spared
from .parts.entry import Case, Entry, cpu_loop, given

ID = "embedding-gradients-dense"
TOUCHED = 0.1  # of the rows at most (ours)
LOOKED_AT_LEAST = 256  # rows (ours)
SPARED = (0.8, 0.9, 1.0)  # of what goes through whole tables: low, likely, high (ours: 0.9 measured)
ROWS = "gradients after one step"

TWO_OPTIMIZERS = """\
table = nn.Embedding(rows, width, sparse=True)
optimizers = [
    torch.optim.SparseAdam(tables, lr=lr),      # the embeddings' weights
    torch.optim.Adam(others, lr=lr),            # all the others
]"""

SPARSE = Proposal(
    id="sparse-gradients",
    title="update only the rows of an embedding that a batch looks up",
    fix=Fix("give embeddings sparse gradients and an optimizer for them", TWO_OPTIMIZERS),
    risk="moments of rows rest while they are not looked up; no weight decay; clipping refuses them",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires where tables of which few rows were looked up keep the optimizer busy."""
    scenario, known, tables = given(diagnosis.scenario), optimizers(diagnosis), _tables(diagnosis)
    if not tables or not known:
        return None
    inside = sum(one.elements for one in tables)
    part = min(1.0, inside / max(1, sum(one.elements for one in known)))
    touched = sum(one.touched for one in tables) / sum(one.looked for one in tables)
    filled = operators(diagnosis, lambda name: name in ("fill_", "zero_", "embedding_dense_backward"))
    filling_s = sum(one.self_cpu_s for one in filled)
    untouched = (1 - touched) * part
    seconds = untouched * (optimizer_s(diagnosis, scenario) + filling_s)
    low, likely, high = (
        replace(spared(scenario, share * seconds), paging=1 - share * untouched) for share in SPARED
    )
    factor = spread(scenario, low, likely, high)
    if factor[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the tables' rows that a step gave a gradient", "touched_share", touched, ROWS),
        Evidence("numbers in these tables", "table_elements", float(inside), ROWS),
        Evidence("share of all that the optimizers update", "table_share", part, "the optimizer's groups"),
        Evidence("share of the step in the optimizer", "optimizer_share", step_share(diagnosis, "optimizer"),
                 "hooks around step"),
    ]  # fmt: skip
    if filled:
        evidence.append(Evidence("time a step fills tensors with zeros", "fill_s", filling_s, PROFILER))
    place = built_at(known[0])
    proposal = replace(SPARSE.at(place), factor=factor, most=gain(scenario, high))
    return Finding(ID, "model.compute", evidence, [proposal], place)


def _tables(diagnosis: Diagnosis) -> list[GradientRows]:
    """Of the loop's process, those of which few rows were looked up."""
    return [
        one
        for one in diagnosis.profile.computing.gradient_rows
        if one.pid == given(diagnosis.loop).pid
        and one.looked >= LOOKED_AT_LEAST
        and one.touched <= TOUCHED * one.looked
    ]


COST = StepCost(0.02, launch=0.001)
ADAM = Optimizer(1, "Adam", "torch", 12, 20_500_000, fused=True, device="cpu", file="train.py", line=9)
FEW = GradientRows(1, 20_000_000, 1_250_000, 1000, 4)


def _case(rows: GradientRows | None, share: float = 0.6) -> Diagnosis:
    """A step of 20 ms, of which the optimizer takes a share."""
    facts = Computing(optimizers=[ADAM], gradient_rows=[rows] if rows else [])
    sick = case_of(COST, facts, [Operator("aten::fill_", 4.0, 0.001)])
    steps = [
        replace(step, optimizer=share * step.wall, compute=step.compute - share * step.wall)
        for step in sick.steps
    ]
    return replace(sick, steps=steps)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a table of a million rows, of which a batch has some thousand", _case(FEW), "fires",
             "sparse-gradients"),
        Case("the output is tied to it", _case(replace(FEW, touched=1000)), "silent"),
        Case("a small table in a large model", _case(replace(FEW, elements=80_000)), "silent"),
        Case("few rows were looked at", _case(replace(FEW, looked=100)), "silent"),
        Case("no such table", _case(None), "silent"),
        Case("no loop", replace(_case(FEW), loop=None), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "model.compute", examine, needs=(cpu_loop,), remedies=(SPARSE,))
