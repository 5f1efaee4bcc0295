"""Which hook is installed when the user's program has imported which module, and what notices the import.

Each file of the agent is loaded when it is needed: a process that never imports torch, a launcher or a tool
of the script's, loads little more than this. Nothing here imports a module of the user's.
"""

from __future__ import annotations

import sys

from .guard import quiet, undo
from .hints import Any, Callable, ModuleSpec, ModuleType, Sequence, Table

# user's module -> our file.function, called with the module once it is complete
HOOKS = {
    "torch": "torch_setup.torch_arrived",
    "torch._dynamo.trace_rules": "compiler.patch_rules",
    "torch._dynamo.callback": "compiler.watch",
    "torch._dynamo.eval_frame": "loop_without_loader.patch_module",
    "torch.serialization": "saving.patch",
    "torch.autograd": "training.patch_autograd",
    "torch.autograd.profiler": "profiler.patch",
    "torch.autograd.profiler_legacy": "profiler.patch",
    "torch.cuda.graphs": "compiler.patch_graphs",
    "torch.xpu.graphs": "compiler.patch_graphs",
    "torch.accelerator.graphs": "compiler.patch_graphs",
    "torch.optim.optimizer": "training.patch_optimizer",
    "torch.utils.data.dataloader": "loader.patch",
    "torch.utils.data._utils.worker": "fetch.patch_worker_loop",
    "torch.distributed.distributed_c10d": "ranks.patch_collectives",
    "torch.distributed": "ranks.patch",
    "torch.distributed._functional_collectives": "ranks.patch",
    "torch.nn.parallel.data_parallel": "ranks.patch",
    "torch.nn.parallel.distributed": "ranks.patch",
    "torch.distributed.fsdp._fully_shard._fsdp_param_group": "ranks.patch",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "ranks.patch",
    "deepspeed.runtime.engine": "ranks.patch",
    "torchdata.stateful_dataloader.worker": "fetch.patch_worker_loop",
    "torchdata.stateful_dataloader.stateful_dataloader": "loader.patch_stateful",
    "logging": "saving.patch",
    "os": "saving.patch",
    "tqdm.std": "saving.patch",
    "tensorboard.summary.writer.event_file_writer": "saving.patch",
    "safetensors.torch": "saving.patch",
    "lightning.fabric.utilities.cloud_io": "saving.patch",
    "lightning_fabric.utilities.cloud_io": "saving.patch",
}


def table() -> Table:
    """What is to be called for each module, each function loaded when its module has come."""
    return {module: late(where) for module, where in HOOKS.items()}


def late(where: str) -> Callable[[Any], None]:
    """``file.function`` of the agent; the file is loaded at the first call."""
    file, _, function = where.partition(".")
    name = "%s.%s" % (__package__, file)

    @quiet
    def call(module: Any) -> None:
        __import__(name)
        getattr(sys.modules[name], function)(module)

    return call


before_search: list[Callable[[], object]] = []  # called before a module is looked for that was not there yet


class Finder:
    """A meta path finder that finds nothing itself: it lets the others find, and notes an import's end."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callable[[Any], Any]]] = {}
        self.first: dict[str, Callable[[], object]] = {}
        self.asking: set[str] = set()

    def add(self, *tables: Table) -> None:
        """Register ``{module name: callback(module)}`` of every table; a module already there is called back
        at once. What fails in one callback does not keep the others."""
        for table in tables:
            for name, callback in table.items():
                self.callbacks.setdefault(name, []).append(quiet(callback))
        for table in tables:
            for name, callback in table.items():
                if name in sys.modules:
                    quiet(callback)(sys.modules[name])
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
            undo.append(lambda: sys.meta_path.remove(self))

    def before(self, name: str, call: Callable[[], object]) -> None:
        """Call once before a module is looked for; at once where it is there."""
        if name in sys.modules:
            call()
        else:
            self.first[name] = call

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the finders after us find ``name``; have its loader call back when the module is complete."""
        for callback in before_search:
            callback()
        if name in self.first:
            quiet(self.first.pop(name))()
        if name not in self.callbacks or name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = _found(name, path, target, self)
        finally:
            self.asking.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            _listen(spec.loader, self.callbacks[name])
        return spec


finder = Finder()


def _found(
    name: str, path: Sequence[str] | None, target: ModuleType | None, ourselves: Finder
) -> ModuleSpec | None:
    for other in sys.meta_path:
        find = getattr(other, "find_spec", None)
        if other is ourselves or find is None:
            continue
        spec: ModuleSpec | None = find(name, path, target)
        if spec is not None:
            return spec
    return None


def _listen(loader: Any, callbacks: list[Callable[[Any], Any]]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        try:
            del loader.exec_module  # the loader is as it was before the user's code runs
        except AttributeError:
            pass
        execute(module)
        for callback in callbacks:
            callback(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:  # a loader with slots: this module goes unwatched
        pass
