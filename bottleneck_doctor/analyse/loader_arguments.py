"""The arguments of a DataLoader, of torch or of what wraps it: their order, and which go together."""

from __future__ import annotations

from collections.abc import Container

# Parameters that may come without their names, in order [torch.utils.data.DataLoader]
POSITIONS = tuple(
    "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
    "worker_init_fn multiprocessing_context generator".split()
)
# what only a loader with workers takes -> what it is without
NEEDS_WORKERS = {
    "prefetch_factor": "None",
    "persistent_workers": "False",
    "multiprocessing_context": "None",
    "timeout": "0",
}
# TrainingArguments has these with `dataloader_` before them [transformers.TrainingArguments]
TRAINER_NAMES = {
    name: f"dataloader_{name}"
    for name in ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last")
}


def without_workers(wanted: dict[str, str], present: Container[str | None]) -> dict[str, str]:
    """What is wanted; where that takes the workers away, what needs some and is ``present`` goes, too."""
    if wanted.get("num_workers") != "0":
        return wanted
    return wanted | {name: value for name, value in NEEDS_WORKERS.items() if name in present}
