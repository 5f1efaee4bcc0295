"""Remedies that several findings propose, as far as no run changes them."""

from __future__ import annotations

from ...model.diagnosis import Proposal
from ...model.report import Fix
from ...model.run import Treatment

WORKERS = Proposal(
    id="workers-auto",
    title="make batches in worker processes",
    fix=Fix(
        "let more workers wait at the same time",
        "DataLoader(..., num_workers=2, prefetch_factor=2, persistent_workers=True)",
    ),
    apply="hook",
    risk="memory grows with each worker; random augmentations draw from other streams",
)
STAGE = Proposal(
    id="stage-to-fast-storage",
    title="copy the data set to a local disk before training",
    fix=Fix(
        "copy the data set once and read the copy",
        "rsync -a --info=progress2 /slow/dataset/ /fast/dataset/    # then train on /fast/dataset",
    ),
    apply="convert",
    effort="hours",
    risk="needs the room, and the time of one copy; a container's own layer may be the slow disk again",
    basis="bound",
)
COMPILE = Proposal(
    id="torch-compile",
    title="compile the model",
    fix=Fix("compile in place; keys of the state dict stay", "model.compile()"),
    apply="hook~",
    risk="minutes of compilation; sums in another order; inputs of many shapes compile anew",
    basis="bound",
    treatments=(Treatment("compiled"),),
)
KEEP_ACTIVATIONS = Proposal(
    id="checkpointing-off",
    title="keep activations instead of computing them twice",
    fix=Fix(
        "call the blocks directly, all or as many as fit",
        "y = block(x)      # instead of torch.utils.checkpoint.checkpoint(block, x)\n"
        "gradient_checkpointing=False      # transformers' TrainingArguments",
    ),
    apply="hook",
    risk="memory rises by the activations that are kept",
    treatments=(Treatment("recompute"),),
)
