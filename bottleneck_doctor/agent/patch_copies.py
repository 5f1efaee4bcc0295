"""Notes copies between host and device, by the user's line, in the looks in which hooks are on; never waits.

Not seen: ``torch.tensor(..., device=...)`` and what else has no tensor on the host to begin with, copies in
other threads, and tensors that move through a subclass of their own. Not yet proven on hardware.
"""

from __future__ import annotations

import linecache
import re
import sys
from time import thread_time_ns

from . import wire
from .hearing import aside, ears, hook
from .patch_waits import Own, begin, noted, plain
from .pulse import _users_frame, state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

PINNED, BLOCKING, JUST_MADE, OTHER_STREAM, IN_NEXT = (1 << place for place in range(len(wire.COPY_BITS)))
MAKERS = (
    r"\btorch\.(?:zeros|ones|full|empty|rand|randn|randint)(?:_like)?"
    r"|\btorch\.(?:eye|arange|linspace|randperm|normal)"
)  # of tensors that could be made on the device; ``torch.tensor`` has its numbers from the host
CHAIN = (
    r"\((?:[^()]|\([^()]*\))*\)(?:\.\w+\([^()]*\))*\.(?:to|cuda|xpu)\("  # their arguments, and then the copy
)
MADE = re.compile("(?:%s)%s" % (MAKERS, CHAIN))


def patch(torch: Any) -> None:
    """Make the hooks ready; ``torch`` is complete and its device in use."""
    hook(torch.Tensor, "to", _to)
    hook(torch.Tensor, "copy_", _copy_)
    for name in ("cuda", "xpu"):
        hook(torch.Tensor, name, _moved)


def _to(original: Callable[..., Any]) -> Callable[..., Any]:
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        aim: Any = kwargs.get("device", args[0] if args else kwargs.get("other"))
        like = isinstance(aim, Own.tensor)
        if not plain(self) or (like and not plain(aim)):
            return aside(original, self, *args, **kwargs)
        to_host = None if ears.deep else _is_host(aim.device if like else aim)
        if to_host is None or to_host is self.is_cpu:
            ears.idle += 1
            return original(self, *args, **kwargs)
        goes_on = _goes_on(kwargs, args[1 if like else 2 :][:1])
        return _noted(sys._getframe(1), self, to_host, goes_on, "to", original, self, *args, **kwargs)

    return to


def _is_host(aim: Any) -> bool | None:
    """Whether the first argument of ``Tensor.to`` means the host, or the device; None: neither."""
    if isinstance(aim, int):
        return False
    kind = aim if isinstance(aim, str) else getattr(aim, "type", "")
    if kind[:3] == "cpu":
        return True
    return False if kind.partition(":")[0] == state.accelerator.kind else None


def _goes_on(kwargs: dict[str, Any], args: tuple[Any, ...]) -> bool:
    """Whether the call was asked not to block: by name, or by its place among the arguments."""
    return bool(kwargs.get("non_blocking", args[0] if args else False))


def _moved(original: Callable[..., Any]) -> Callable[..., Any]:
    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not plain(self):
            return aside(original, self, *args, **kwargs)
        if ears.deep or not self.is_cpu:
            return original(self, *args, **kwargs)
        goes_on = _goes_on(kwargs, args[1:2])
        return _noted(sys._getframe(1), self, False, goes_on, "to", original, self, *args, **kwargs)

    return move


def _copy_(original: Callable[..., Any]) -> Callable[..., Any]:
    def copy_(self: Any, *args: Any, **kwargs: Any) -> Any:
        source: Any = args[0] if args else kwargs.get("src", kwargs.get("other"))
        if not plain(self) or not plain(source):
            return aside(original, self, *args, **kwargs)
        if ears.deep or self.is_cpu is source.is_cpu:
            ears.idle += 1
            return original(self, *args, **kwargs)
        goes_on = _goes_on(kwargs, args[1:2])
        return _noted(
            sys._getframe(1), source, self.is_cpu, goes_on, "copy_", original, self, *args, **kwargs
        )

    return copy_


def _noted(
    frame: FrameType, source: Any, to_host: bool, goes_on: bool, which: str,
    call: Callable[..., Any], *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call it, and write down what it brought to the device, and how; or that it waited for the device."""
    if to_host:
        return call(*args, **kwargs) if goes_on else noted(which, frame, call, *args, **kwargs)
    under_way = begin("copy", frame)
    try:
        return call(*args, **kwargs)
    finally:
        if under_way is not None:
            cpu = thread_time_ns() - under_way.cpu
            under_way.end(
                wire.DEVICE_COPY,
                lambda: (source.nbytes, cpu, _bits(source, goes_on, frame), _type(source.dtype)),
            )


def _bits(source: Any, goes_on: bool, frame: FrameType) -> int:
    """Pinned is not asked where somebody listens to torch's dispatcher: it would hear the question."""
    pinned = not Own.dispatching() and source.is_pinned()
    bits = PINNED if pinned else 0
    bits |= 0 if goes_on and pinned else BLOCKING  # from pageable memory it blocks, whatever was asked
    bits |= JUST_MADE if _made(frame) else 0
    look = state.look
    if look is not None and look.stream != state.accelerator.stream():
        bits |= OTHER_STREAM
    if look is not None and state.inside is not None and state.inside.thread == look.thread:
        bits |= IN_NEXT
        look.copies += 1
    return bits


_makers: dict[tuple[str, int], bool] = {}


def _made(frame: FrameType) -> bool:
    """Whether the line that copies says that it makes what it copies; its text is read once."""
    found = _users_frame(frame)
    if found is None:
        return False
    line = (found.f_code.co_filename, found.f_lineno)
    known = _makers.get(line)
    if known is None:
        known = _makers[line] = MADE.search(linecache.getline(*line, found.f_globals)) is not None
    return known


_types: dict[Any, int] = {}


def _type(dtype: Any) -> int:
    place = _types.get(dtype)
    if place is None:
        name = str(dtype).rpartition(".")[2]
        place = _types[dtype] = wire.DTYPES.index(name) if name in wire.DTYPES else 0
    return place
