"""Notes copies between host and device, by the user's line, in the looks in which hooks are on; never waits.

Not seen: ``torch.tensor(..., device=...)`` and what else has no tensor on the host to begin with, copies in
other threads, and tensors that move through a subclass of their own. Not yet proven on hardware.
"""

from __future__ import annotations

import linecache
import re
import sys

from . import wire
from .device_waits import Own, begin, noted, plain
from .hints import Any, Callable, FrameType
from .state import state
from .tensor_hooks import aside, ears, hook

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
    def to(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        aim: Any = kwargs.get("device", args[0] if args else kwargs.get("other"))
        like = isinstance(aim, Own.tensor)
        if not plain(self) or (like and not plain(aim)):
            return aside(original, self, *args, **kwargs)
        to_host = None if ears.deep else _is_host(aim.device if like else aim)
        if to_host is None or to_host is self.is_cpu:
            ears.idle += 1
            return original(self, *args, **kwargs)
        goes_on, frame = _goes_on(kwargs, args[1 if like else 2 :]), sys._getframe(1)
        if to_host:
            return _fetched("to", frame, goes_on, original, self, *args, **kwargs)
        asked = [one for one in (kwargs.get("dtype"), *args[1:2]) if type(one) is Own.dtype]
        dtype = aim.dtype if like else [*asked, self.dtype][0]
        return _sent(frame, self, dtype, goes_on, original, self, *args, **kwargs)

    return to


def _is_host(aim: Any) -> bool | None:
    """Whether the first argument of ``Tensor.to`` means the host, or the device; None: neither."""
    if type(aim) is int:
        return False
    kind: str = aim if type(aim) is str else getattr(aim, "type", "") if type(aim) is Own.device else ""
    if kind[:3] == "cpu":
        return True
    return False if kind.partition(":")[0] == state.accelerator.kind else None


def _goes_on(kwargs: dict[str, Any], args: tuple[Any, ...]) -> bool:
    """Whether the call was asked not to block: by name, or by the first of these arguments."""
    return kwargs.get("non_blocking", args[0] if args else False) is True


def _moved(original: Callable[..., Any]) -> Callable[..., Any]:
    def move(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not plain(self):
            return aside(original, self, *args, **kwargs)
        if ears.deep or not self.is_cpu:
            return original(self, *args, **kwargs)
        goes_on = _goes_on(kwargs, args[1:])
        return _sent(sys._getframe(1), self, self.dtype, goes_on, original, self, *args, **kwargs)

    return move


def _copy_(original: Callable[..., Any]) -> Callable[..., Any]:
    def copy_(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        source: Any = args[0] if args else kwargs.get("src", kwargs.get("other"))
        if not plain(self) or not plain(source):
            return aside(original, self, *args, **kwargs)
        if ears.deep or self.is_cpu is source.is_cpu:
            ears.idle += 1
            return original(self, *args, **kwargs)
        goes_on, frame = _goes_on(kwargs, args[1:]), sys._getframe(1)
        if self.is_cpu:
            return _fetched("copy_", frame, goes_on, original, self, *args, **kwargs)
        return _sent(frame, source, self.dtype, goes_on, original, self, *args, **kwargs)

    return copy_


def _fetched(
    which: str, frame: FrameType, goes_on: bool, call: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call it: a copy to the host is waited for, unless it was asked to go on."""
    return call(*args, **kwargs) if goes_on else noted(which, frame, call, *args, **kwargs)


def _sent(
    frame: FrameType, source: Any, dtype: Any, goes_on: bool,
    call: Callable[..., Any], /, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call it, and write down what it brings to the device, and how."""
    under_way = begin("copy", frame, lambda site: _describe(source, dtype, goes_on, frame, site))
    try:
        return call(*args, **kwargs)
    finally:
        if under_way is not None:
            under_way.end(wire.DEVICE_COPY)


def _describe(source: Any, dtype: Any, goes_on: bool, frame: FrameType, site: int) -> tuple[int, int, int]:
    """Bytes, bits and type of what crosses. A copy that blocks changes the type on the host, one that goes on
    does so on the device; what is not contiguous is made so on the host, in pageable memory (torch's
    ``aten/src/ATen/native/cuda/Copy.cu``). From there it blocks, whatever was asked."""
    crossing = source.dtype if goes_on else dtype
    as_it_is = crossing == source.dtype and (
        source.is_contiguous() or source.is_contiguous(memory_format=Own.channels_last)
    )
    pinned = as_it_is and _is_pinned(source)
    bits = (PINNED if pinned else 0) | (0 if pinned and goes_on else BLOCKING)
    if _made(site, frame):
        bits |= JUST_MADE
    look = state.look
    if look is not None and look.stream != state.accelerator.stream():
        bits |= OTHER_STREAM
    if look is not None and state.inside is not None and state.inside.thread == look.thread:
        bits |= IN_NEXT
        look.copies += 1
    return source.numel() * crossing.itemsize, bits, _type(crossing)


def _is_pinned(source: Any) -> bool:
    """Not asked where somebody listens to torch's dispatcher: it would hear the question."""
    return not Own.dispatching() and bool(source.is_pinned())


def _made(site: int, frame: FrameType) -> bool:
    """Whether the line that copies says that it makes what it copies; its text is read once."""
    known = ears.makers.get(site)
    if known is None:
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
        known = ears.makers[site] = MADE.search(text) is not None
    return known


_types: dict[Any, int] = {}


def _type(dtype: Any) -> int:
    place = _types.get(dtype)
    if place is None:
        name = str(dtype).rpartition(".")[2]
        place = _types[dtype] = wire.DTYPES.index(name) if name in wire.DTYPES else 0
    return place
