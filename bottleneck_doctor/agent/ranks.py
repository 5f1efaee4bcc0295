"""Notes models shared among ranks or devices, and times the collectives that the loop's thread waits for.

These are the loop's own calls, and those of sharded models (FSDP), each with the module that it is for.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .clocks import run_queue
from .compiler import outside_of_graphs
from .guard import quiet, replace, replace_each, when_built, without_overrides
from .hints import Any, Callable, FrameType
from .state import _users_frame, state

BOOKS_AT = (12, 128, 1024, 8192)  # passes seen after which DDP's own logging data are copied, at most

models: list[weakref.ref[Any]] = []  # every DistributedDataParallel of this process
_passes = [0]


class SampledBackward:
    """One backward pass of a sampled step."""

    __slots__ = ("begun", "handle", "mark", "shared", "thread")

    def __init__(self, node: Any, shared: bool) -> None:
        self.mark: tuple[int, int, int] | None = None
        self.shared = shared
        self.thread = state.thread()
        self.handle = node.register_prehook(self._root)
        self.begun = now()

    @quiet
    def _root(self, gradients: Any) -> None:
        """The pass has begun: queue our callback, so that it runs before those that are queued later."""
        self.handle.remove()
        sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(self._finished)

    def _finished(self) -> None:
        """Every gradient of this rank is there. Thread clocks are read on the training thread only."""
        if state.thread() == self.thread:
            self.mark = (now(), thread_time_ns(), run_queue())
        else:
            self.mark = (now(), wire.NOTHING, wire.NOTHING)

    @quiet
    def close(self) -> None:
        """The pass is over, or has failed."""
        self.handle.remove()
        if self.mark is None:
            return
        end, cpu, queue = now(), thread_time_ns(), run_queue()
        mark, mark_cpu, mark_queue = self.mark
        used = (
            (cpu - mark_cpu, queue - mark_queue) if mark_cpu != wire.NOTHING else (wire.NOTHING, wire.NOTHING)
        )
        local = mark - self.begun
        state.row(wire.EXCHANGE, mark, end - mark, *used, local, thing=int(self.shared), thread=self.thread)
        if self.shared:
            _passes[0] += 1
            if _passes[0] in BOOKS_AT:
                copy_books()


@without_overrides
def watch(tensors: Any) -> SampledBackward | None:
    """Watch the backward pass of these tensors; None where nothing may be hung onto its graph."""
    node = tensors[0].grad_fn
    compiled: Any = sys.modules.get("torch._dynamo.compiled_autograd")
    inside = sys.modules["torch"]._C._current_graph_task_id() != -1  # such a pass belongs to the outer one
    if node is None or inside or getattr(compiled, "compiled_autograd_enabled", False):
        return None
    # Has the last forward pass of a model announced an exchange? Under ``no_sync`` it announces none.
    found = (model() for model in models)
    shared = any(getattr(one, "require_forward_param_sync", True) for one in found if one is not None)
    return SampledBackward(node, shared)


@quiet
def copy_books() -> None:
    """Copy DDP's own logging data: buckets as rebuilt, bytes of unused parameters."""
    for number, reference in enumerate(models, 1):
        model = reference()
        if model is not None:
            books = model._get_ddp_logging_data()
            kept = {name: books.get(name) for name in KEPT}
            state.writer.fact(fact="ddp_books", model=number, **kept)


KEPT = ("bucket_sizes", "rebuilt_bucket_sizes", "unused_parameter_size", "comm_hook")


NOTED_NS = 20_000  # calls shorter than this are not worth a row
COLLECTIVES = (
    "all_reduce all_reduce_coalesced all_gather all_gather_into_tensor all_gather_single all_gather_object "
    "all_to_all all_to_all_single barrier broadcast broadcast_object_list gather gather_object "
    "monitored_barrier recv reduce reduce_scatter reduce_scatter_tensor reduce_scatter_single scatter "
    "scatter_object_list send"
).split()
ARGUMENTS = (
    "bucket_bytes_cap find_unused_parameters gradient_as_bucket_view static_graph broadcast_buffers"
).split()

SHARDING = os.path.join("_fully_shard", "_fsdp_param_group.py")  # its methods run what one module exchanges
CALLERS = 6  # frames above a collective in which such a method stands
BEGUN_AT_MOST = 256

_begun: dict[int, tuple[str, int]] = {}  # by the number of its Work: what a call began, and did not wait for
_inside = threading.local()  # an all_gather_object gathers twice; its time is counted once


def patch_collectives(module: Any) -> None:
    """``module`` is torch.distributed.distributed_c10d, before torch.distributed hands its names on."""
    for name in COLLECTIVES:
        if hasattr(module, name):
            replace(module, name, _timed(name))
    replace(module.Work, "wait", _timed("wait"))
    replace(module, "init_process_group", _joined)
    if module.is_initialized():  # we came later
        _describe_group()


def patch(module: Any) -> None:
    """Put on the hook that HOOKS has for this module."""
    name, build = HOOKS[module.__name__]
    replace_each(module, (name,), build)


def _timed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def collective(*args: Any, **kwargs: Any) -> Any:
            if not state.close or getattr(_inside, "call", False):
                return original(*args, **kwargs)
            begun = now(), thread_time_ns(), run_queue()
            _inside.call = True  # and no call before the `try`: a signal's exception may come out of one
            try:
                done = original(*args, **kwargs)
                _remember(done, name, args)
                return done
            finally:
                _inside.call = False
                _note(name, begun, args, sys._getframe().f_back)

        return collective

    return build


@quiet
def _remember(work: Any, name: str, args: tuple[Any, ...]) -> None:
    """Remember which collective this Work belongs to, for a later ``wait``."""
    if name != "wait" and hasattr(work, "wait"):
        if len(_begun) >= BEGUN_AT_MOST:
            _begun.clear()
        _begun[id(work)] = name, _size(args)


@quiet
def _note(name: str, begun: tuple[int, int, int], args: tuple[Any, ...], frame: FrameType) -> None:
    start, cpu, queue = begun
    size = _size(args)
    if name == "wait":
        name, size = _begun.pop(id(args[0]), (name, size))
    taken = now() - start
    if taken < NOTED_NS:
        return
    cpu, queue = thread_time_ns() - cpu, run_queue() - queue
    site = state.site(f"{name} {_module(frame)}".strip(), frame)
    state.row(wire.COLLECTIVE, start, taken, cpu, queue, size, thing=site, thread=state.thread())


def _module(frame: FrameType | None) -> str:
    """The module whose parameters are gathered or whose gradients are reduced; "" where there is none."""
    for _ in range(CALLERS):
        if frame is None:
            break
        if frame.f_code.co_filename.endswith(SHARDING):
            return str(getattr(frame.f_locals.get("self"), "_module_fqn", "") or "")
        frame = frame.f_back
    return ""


def _size(args: tuple[Any, ...]) -> int:
    """Bytes of the first argument, when that is a tensor."""
    first: Any = args[0] if args else None
    return first.numel() * first.element_size() if hasattr(first, "element_size") else 0


def _joined(original: Callable[..., Any]) -> Callable[..., Any]:
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        done = original(*args, **kwargs)
        _describe_group()
        return done

    return init_process_group


@quiet
def _describe_group() -> None:
    group = _group()
    state.ranked = group.get("world_size", 1) > 1
    state.writer.post(wire.WORLD, group.get("world_size", 0))
    state.writer.fact(fact="ranks", **group)


def _group() -> dict[str, Any]:
    """Who we are among how many, and over what; nothing without a group."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return {}
    return {
        "rank": distributed.get_rank(),
        "world_size": distributed.get_world_size(),
        "backend": str(distributed.get_backend()),
    }


def _describe_wrapped(model: Any, frame: FrameType | None, _: object) -> None:
    arguments = {name: repr(getattr(model, name)) for name in ARGUMENTS if hasattr(model, name)}
    size = _bytes([one for one in model.parameters() if one.requires_grad])
    if hasattr(model, "require_forward_param_sync"):
        models.append(weakref.ref(model))
        _fact("ddp", size, arguments, frame, devices=len(model.device_ids or [0]), **_group())
    else:
        _fact("dp", size, arguments, frame, devices=len(model.device_ids))


def _describe_flat(model: Any, frame: FrameType | None, _: object) -> None:
    flat = getattr(model._handle, "flat_param", None) if model._handle is not None else None
    if flat is None:
        return  # all of its parameters are those of modules that are wrapped themselves
    resharded = getattr(model.sharding_strategy, "name", "") in ("FULL_SHARD", "HYBRID_SHARD")
    whole = flat._unpadded_unsharded_size.numel() * flat.element_size()
    _fact("fsdp", whole, _sharding(resharded, model.mixed_precision), frame, **_group())


def _describe_zero(engine: Any, frame: FrameType | None, _: object) -> None:
    shared = [one for one in engine.module.parameters() if one.requires_grad]
    whole = sum(getattr(one, "ds_numel", one.numel()) * one.element_size() for one in shared)
    stage = {"stage": str(engine.zero_optimization_stage())}
    _fact("zero", whole, stage, frame, **_group())


def _grouped(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        size = quiet(_bytes)(params)  # afterwards each rank has its own part
        original(self, params, *args, **kwargs)
        quiet(describe)(self, size, sys._getframe().f_back)

    def describe(group: Any, size: int, frame: FrameType) -> None:
        arguments = _sharding(group.post_forward_mesh_info is not None, group.mp_policy)
        _fact("fsdp", size, arguments, frame, **_group())

    return __init__


def _bytes(params: Any) -> int:
    local = (getattr(one, "_local_tensor", one) for one in params)  # of a DTensor, this rank's shard
    return sum(one.numel() * one.element_size() for one in local)


def _sharding(resharded: bool, policy: Any) -> dict[str, str]:
    types = {name: str(getattr(policy, name)) for name in ("param_dtype", "reduce_dtype")}
    return {"resharded": str(resharded), **types}


def _fact(
    kind: str, gradient_bytes: int, arguments: dict[str, str], frame: FrameType | None, **more: Any
) -> None:
    found = _users_frame(frame)
    state.writer.fact(
        fact="parallel", kind=kind, gradient_bytes=gradient_bytes, arguments=arguments,
        file=found.f_code.co_filename if found else "", line=found.f_lineno if found else 0,
        function=found.f_code.co_name if found else "", **more,
    )  # fmt: skip


# Module -> what is replaced in it, and by which hook.
HOOKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "torch.distributed": ("_broadcast_coalesced", _timed("broadcast")),  # as DDP looks it up, for buffers
    # By this tensor parallelism exchanges.
    "torch.distributed._functional_collectives": ("wait_tensor", outside_of_graphs(_timed("wait"))),
    "torch.distributed.fsdp._fully_shard._fsdp_param_group": ("FSDPParamGroup.__init__", _grouped),  # FSDP2
    "torch.distributed.fsdp.fully_sharded_data_parallel": (
        "FullyShardedDataParallel.__init__", when_built(_describe_flat),
    ),
    "torch.nn.parallel.data_parallel": ("DataParallel.__init__", when_built(_describe_wrapped)),
    "torch.nn.parallel.distributed": ("DistributedDataParallel.__init__", when_built(_describe_wrapped)),
    "deepspeed.runtime.engine": ("DeepSpeedEngine.__init__", when_built(_describe_zero)),
}  # fmt: skip
