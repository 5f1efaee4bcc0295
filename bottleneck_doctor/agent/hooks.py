"""Which hook is installed when which module is imported; each file of the agent is loaded when needed.

A process that never imports torch, a launcher or a tool of the script's, loads little more than this.
"""

from __future__ import annotations

import sys

from .guard import quiet
from .hints import Any, Callable, Table

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
    "torch.utils.data._utils.worker": "worker.patch",
    "torch.distributed.distributed_c10d": "ranks.patch_collectives",
    "torch.distributed": "ranks.patch_package",
    "torch.distributed._functional_collectives": "ranks.patch_functional",
    "torch.nn.parallel.data_parallel": "ranks.patch_models",
    "torch.nn.parallel.distributed": "ranks.patch_models",
    "torch.distributed.fsdp._fully_shard._fsdp_param_group": "ranks.patch_sharded",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "ranks.patch_models",
    "deepspeed.runtime.engine": "ranks.patch_models",
    "torchdata.stateful_dataloader.worker": "worker.patch",
    "torchdata.stateful_dataloader.stateful_dataloader": "loader.patch_stateful",
    "logging": "saving.patch",
    "os": "saving.patch_os",
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
