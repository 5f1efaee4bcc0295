"""Notes models shared among ranks or devices, and times the collectives that a loop calls itself."""

from __future__ import annotations

import sys
import threading
import weakref
from time import monotonic_ns as now
from time import thread_time_ns

from . import exchange, wire
from .clocks import run_queue
from .guard import quiet, replace
from .pulse import _users_frame, state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

NOTED_NS = 20_000  # calls shorter than this are not worth a row
COLLECTIVES = (
    "all_reduce all_reduce_coalesced all_gather all_gather_into_tensor all_gather_object all_to_all "
    "all_to_all_single barrier broadcast broadcast_object_list gather gather_object monitored_barrier reduce "
    "reduce_scatter reduce_scatter_tensor scatter scatter_object_list"
).split()
ARGUMENTS = (
    "bucket_bytes_cap find_unused_parameters gradient_as_bucket_view static_graph broadcast_buffers"
).split()

_inside = threading.local()  # an all_gather_object gathers twice; its time is counted once


def patch_collectives(module: Any) -> None:
    """``module`` is torch.distributed.distributed_c10d, before torch.distributed hands its names on."""
    for name in COLLECTIVES:
        if hasattr(module, name):
            replace(module, name, _timed(name))
    replace(module.Work, "wait", _timed("wait"))
    replace(module, "init_process_group", _joined)


def patch_package(module: Any) -> None:
    """``module`` is torch.distributed; DistributedDataParallel looks its broadcast of buffers up there."""
    replace(module, "_broadcast_coalesced", _timed("broadcast"))


def patch_data_parallel(module: Any) -> None:
    """``module`` is torch.nn.parallel.data_parallel."""
    replace(module.DataParallel, "__init__", _construction(_describe_data_parallel))


def patch_distributed(module: Any) -> None:
    """``module`` is torch.nn.parallel.distributed."""
    replace(module.DistributedDataParallel, "__init__", _construction(_describe_distributed))


def _timed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def collective(*args: Any, **kwargs: Any) -> Any:
            if not state.close or getattr(_inside, "call", False):
                return original(*args, **kwargs)
            _inside.call = True
            start, cpu, queue = now(), thread_time_ns(), run_queue()
            try:
                return original(*args, **kwargs)
            finally:
                _inside.call = False
                _note(name, (start, cpu, queue), args, sys._getframe(1))

        return collective

    return build


@quiet
def _note(name: str, begun: tuple[int, int, int], args: tuple[Any, ...], frame: FrameType) -> None:
    start, cpu, queue = begun
    taken = now() - start
    if taken < NOTED_NS:
        return
    state.row(
        wire.COLLECTIVE, start, taken, thread_time_ns() - cpu, run_queue() - queue, _size(args),
        thing=state.site(name, frame), thread=state.thread(),
    )  # fmt: skip


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
    state.book.fact(fact="ranks", **group)


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


def _construction(describe: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            describe(self, sys._getframe(1))

        return __init__

    return build


@quiet
def _describe_data_parallel(model: Any, frame: FrameType) -> None:
    _write("dp", model, frame, {"devices": len(model.device_ids)})


@quiet
def _describe_distributed(model: Any, frame: FrameType) -> None:
    exchange.models.append(weakref.ref(model))
    _write("ddp", model, frame, {"devices": len(model.device_ids or [0]), **_group()})


def _write(kind: str, model: Any, frame: FrameType, more: dict[str, Any]) -> None:
    shared = [one for one in model.parameters() if one.requires_grad]
    found = _users_frame(frame)
    state.book.fact(
        fact="parallel", kind=kind, parameters=len(shared), buffers=sum(1 for _ in model.buffers()),
        gradient_bytes=sum(one.numel() * one.element_size() for one in shared),
        arguments={name: repr(getattr(model, name)) for name in ARGUMENTS if hasattr(model, name)},
        file=found.f_code.co_filename if found else "", line=found.f_lineno if found else 0,
        function=found.f_code.co_name if found else "", **more,
    )  # fmt: skip
