"""The guest: hooks that a training process carries when it is run under ``bdoc``.

Standard library only; no threads, no sockets, and one exit hook that notes the instant. ``arm`` is called by
the door (``inject/sitecustomize.py``); where a launcher keeps that door shut (``python -I``), a script may
call ``import bottleneck_doctor.agent; bottleneck_doctor.agent.arm()`` itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from .treatments import Table


def arm(folder: str | None = None) -> None:
    """Install every hook, once. Without a run folder (argument or BDOC_RUN) this does nothing; nor where
    Python runs without its global lock, on which the rows of several threads rely."""
    folder = folder or os.environ.get("BDOC_RUN")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    if not folder or not os.path.isdir(folder) or getattr(sys, "_bdoc_armed", False):
        return
    try:
        _install(folder)
        sys._bdoc_armed = True  # type: ignore[attr-defined]
    except Exception:  # a training without measurements is better than no training
        pass


def _install(folder: str) -> None:
    from . import (
        give_way,
        patch_collector,
        patch_compiler,
        patch_containers,
        patch_decoders,
        patch_function,
        patch_graphs,
        patch_loader,
        patch_ranks,
        patch_saving,
        patch_training,
        patch_unpackers,
        patch_worker,
        process,
        pulse,
        startup,
    )
    from .importing import when_imported

    pulse.begin(folder)
    process.introduce()
    process.take_orders(folder)
    patch_collector.watch()
    patch_function.mark(os.environ.get("BDOC_DATA_FN", ""))
    callbacks = {
        "torch": process.torch_arrived,
        "torch.torch_version": startup.torch_begins,
        "torch._dynamo.trace_rules": patch_compiler.patch,
        "torch._dynamo.eval_frame": patch_compiler.patch_module,
        "torch.serialization": patch_saving.patch_save,
        "torch.autograd": patch_training.patch_autograd,
        "torch.autograd.profiler": give_way.patch,
        "torch.cuda.graphs": patch_graphs.patch,
        "torch.optim.optimizer": patch_training.patch_optimizer,
        "torch.utils.data.dataloader": patch_loader.patch,
        "torch.utils.data._utils.worker": patch_worker.patch,
        "torchdata.stateful_dataloader.worker": patch_worker.patch,
        "torchdata.stateful_dataloader.stateful_dataloader": patch_loader.patch_stateful,
        "logging": patch_saving.patch_logging,
        "os": patch_saving.patch_os,
        "tqdm.std": patch_saving.patch_tqdm,
        "tensorboard.summary.writer.event_file_writer": patch_saving.patch_event_writer,
        "safetensors.torch": patch_saving.patch_safetensors,
        "lightning.fabric.utilities.cloud_io": patch_saving.patch_lightning,
        "lightning_fabric.utilities.cloud_io": patch_saving.patch_lightning,
    }
    keeping = _keeping()
    watchers = [one.watchers() for one in (patch_decoders, patch_containers, patch_unpackers, patch_ranks)]
    below, above = _treatments()
    stops: Table = {"torch.utils.data.dataloader": patch_worker.patch_stops}
    when_imported(*keeping, *below, callbacks, stops, *watchers, *above)


def _keeping() -> list[Table]:
    """Puts aside what would be overwritten, where the run is one of many that nobody asked to last."""
    folder = os.environ.get("BDOC_KEEP")
    if not folder or not os.path.isdir(folder):
        return []
    from . import keeping  # an ordinary run overwrites what it overwrites

    return [keeping.watch(folder)]


def _treatments() -> tuple[list[Table], list[Table]]:
    """What a trial changes: first, so that what measures comes on top of it; and what it notes, last."""
    order = os.environ.get("BDOC_TRIAL")
    if not order:
        return [], []
    from . import treatments  # most runs change nothing

    return treatments.ordered(order)
