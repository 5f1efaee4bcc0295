"""Notes calls that wait for the device or copy to it, by the user's line, in the looks in which hooks are on.

The time inside a wait is mostly the device finishing what had to be done anyway: what it costs shows in the
idle time after it. Calls inside of such a call belong to it. Not seen, since compiled and scripted code knows
functions of torch by identity: ``torch.nonzero``, ``torch.unique``, ``torch.where`` with one argument; a
profiler's window shows them without their line. Nor ``torch.tensor(..., device=...)`` and what else has no
tensor on the host to begin with, copies in other threads, and tensors that move through a subclass of their
own. Not yet proven on hardware.
"""

from __future__ import annotations

import linecache
import re
import sys
from time import monotonic_ns as now

from . import device_clock, wire
from .guard import from_signal, quiet
from .hints import TYPE_CHECKING, Any, Callable, FrameType
from .state import state
from .tensor_hooks import ALWAYS, WINDOWS, aside, hook, patches

if TYPE_CHECKING:
    from .device_clock import Columns


METHODS = {
    "item": "item", "tolist": "tolist", "cpu": "cpu", "__bool__": "bool", "__int__": "int",
    "__float__": "float", "__index__": "index", "__complex__": "complex", "__repr__": "print",
    "__format__": "print", "nonzero": "nonzero", "masked_select": "mask", "unique": "unique",
    "equal": "equal", "allclose": "equal",
}  # fmt: skip
BINDINGS = (  # what torch.cuda.synchronize and its like look up at each call
    "_cuda_synchronize", "_xpu_synchronize", "_accelerator_synchronizeDevice",
)  # fmt: skip
EMPTYING = ("_cuda_emptyCache", "_xpu_emptyCache", "_accelerator_emptyCache")  # behind the public functions


class Own:
    """What is torch's own: subclasses of tensors and modes may have functions of their own for everything."""

    kind: str = ""
    tensor: type = object
    dtype: type = object
    dtypes: dict[Any, int] = {}  # noqa: RUF012  (place in ``wire.DTYPES``)
    device: type = object
    channels_last: Any = None
    types: tuple[type, ...] = ()
    modes: Callable[[], int] = int
    mode_at: Callable[[int], object] = int
    dispatching: Callable[[], int] = int


def patch(torch: Any) -> None:
    """Make the hooks ready; ``torch`` is complete and its device in use."""
    Own.kind = state.accelerator.kind  # a wrapper that a script has kept is called when that is gone
    Own.tensor, Own.types = torch.Tensor, (torch.Tensor, torch.nn.Parameter)
    Own.dtype, Own.device, Own.channels_last = torch.dtype, torch.device, torch.channels_last
    Own.dtypes = {getattr(torch, name): place for place, name in enumerate(wire.DTYPES) if name}
    Own.modes, Own.mode_at = torch._C._len_torch_function_stack, torch._C._get_function_stack_at
    Own.dispatching = torch._C._len_torch_dispatch_stack
    patches.warns = getattr(torch._C, "_cuda_get_sync_debug_mode", int)
    for name, kind in METHODS.items():
        hook(torch.Tensor, name, _method(kind))
    hook(torch.Tensor, "__getitem__", _masked, WINDOWS)
    for name in BINDINGS:
        hook(torch._C, name, _function("synchronize"))
    device = getattr(torch, Own.kind, None)
    for name, kind in (("Stream", "stream"), ("Event", "event")):
        if hasattr(device, name):
            hook(getattr(device, name), "synchronize", _function(kind))
    for name in EMPTYING:
        hook(torch._C, name, _emptying, ALWAYS)
    hook(torch.Tensor, "to", _to)
    hook(torch.Tensor, "copy_", _copy_)
    for name in ("cuda", "xpu"):
        hook(torch.Tensor, name, _moved)


def plain(tensor: Any) -> bool:
    """Whether a call on it is dispatched to torch only: no mode and no subclass intercepts it."""
    if not Own.modes():
        return type(tensor) in Own.types
    modes = (type(Own.mode_at(place)) for place in range(Own.modes()))  # the default device's hands all on
    return type(tensor) in Own.types and all(mode.__module__ == "torch.utils._device" for mode in modes)


class SyncCall:
    """A call that is under way: its token of the device's clock, its place, and its name in a trace."""

    __slots__ = ("columns", "site", "span", "token")

    def __init__(self, kind: str, frame: FrameType | None, describe: Callable[[int], Columns]) -> None:
        entry = now()
        self.site = state.site(kind, frame)
        self.columns = describe(self.site)
        self.span = state.window.name(kind, frame) if state.window is not None else None
        self.token = device_clock.begin()
        patches.deep = True
        state.hooks_ns += now() - entry

    @quiet
    def end(self, row: int) -> None:
        """It is over: a row of this kind, if the hooks are still on."""
        end = now()
        patches.deep = False
        if self.span is not None:
            self.span()
        if patches.on and self.token is not None:
            device_clock.note(self.token, row, self.columns, self.site)
        state.hooks_ns += now() - end


def begin(kind: str, frame: FrameType | None, describe: Callable[[int], Columns]) -> SyncCall | None:
    """The call that begins, if it is the sampled step's own; no ``frame``: C called it. ``describe`` tells
    the columns of its row from its site, and is asked before the clock starts."""
    look = state.look
    try:
        if look is None or look.thread != state.thread() or not state.accelerator.ready():
            return None
        return SyncCall(kind, frame, describe)
    except Exception as problem:
        if from_signal(problem):
            raise
        return None


def noted(which: str, frame: FrameType | None, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call it, and write down that it waited for the device."""
    under_way = begin("wait", frame, lambda site: (wire.WAITS.index(which), 0, 0))
    try:
        return call(*args, **kwargs)
    finally:
        if under_way is not None:
            under_way.end(wire.DEVICE_WAIT)


def _method(which: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    types, modes = Own.types, Own.modes

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            if (type(self) not in types or modes()) and not plain(self):  # tensors of the host get by soon
                return aside(original, self, *args, **kwargs)
            if patches.deep or self.is_cpu:
                patches.idle += 1
                return original(self, *args, **kwargs)
            return noted(which, sys._getframe().f_back, original, self, *args, **kwargs)

        return wait

    return build


def _function(which: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*args: Any, **kwargs: Any) -> Any:
            if patches.deep:
                return original(*args, **kwargs)
            return noted(which, sys._getframe().f_back, original, *args, **kwargs)

        return wait

    return build


def _masked(original: Callable[..., Any]) -> Callable[..., Any]:
    """A mask chooses as many elements as the device says."""

    def __getitem__(self: Any, index: Any, /) -> Any:
        if not plain(self):
            return aside(original, self, index)
        parts = index if type(index) is tuple else (index,)
        masks = (str(one.dtype) in ("torch.bool", "torch.uint8") for one in parts if type(one) in Own.types)
        if patches.deep or self.is_cpu or not any(masks):
            patches.idle += 1
            return original(self, index)
        return noted("mask", sys._getframe().f_back, original, self, index)

    return __getitem__


def _emptying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Counted outside of looks as well, until graphs are compiled: they may hold it."""

    def empty(*args: Any, **kwargs: Any) -> Any:
        state.emptied += 1
        return noted("empty_cache", sys._getframe().f_back, original, *args, **kwargs)

    return empty


PINNED, BLOCKING, JUST_MADE, OTHER_STREAM, IN_NEXT = (1 << place for place in range(len(wire.COPY_BITS)))
MAKERS = (
    r"\btorch\.(?:zeros|ones|full|empty|rand|randn|randint)(?:_like)?"
    r"|\btorch\.(?:eye|arange|linspace|randperm|normal)"
)  # of tensors that could be made on the device; ``torch.tensor`` has its numbers from the host
CHAIN = (
    r"\((?:[^()]|\([^()]*\))*\)(?:\.\w+\([^()]*\))*\.(?:to|cuda|xpu)\("  # their arguments, and then the copy
)
MADE = re.compile("(?:%s)%s" % (MAKERS, CHAIN))


def _to(original: Callable[..., Any]) -> Callable[..., Any]:
    def to(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        aim: Any = kwargs.get("device", args[0] if args else kwargs.get("other"))
        like = isinstance(aim, Own.tensor)
        if not plain(self) or (like and not plain(aim)):
            return aside(original, self, *args, **kwargs)
        to_host = None if patches.deep else _is_host(aim.device if like else aim)
        if to_host is None or to_host is self.is_cpu:
            patches.idle += 1
            return original(self, *args, **kwargs)
        goes_on, frame = _goes_on(kwargs, args[1 if like else 2 :]), sys._getframe().f_back
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
    return False if kind.partition(":")[0] == Own.kind else None


def _goes_on(kwargs: dict[str, Any], args: tuple[Any, ...]) -> bool:
    """Whether the call was asked not to block: by name, or by the first of these arguments."""
    return kwargs.get("non_blocking", args[0] if args else False) is True


def _moved(original: Callable[..., Any]) -> Callable[..., Any]:
    def move(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not plain(self):
            return aside(original, self, *args, **kwargs)
        if patches.deep or not self.is_cpu:
            return original(self, *args, **kwargs)
        goes_on = _goes_on(kwargs, args[1:])
        return _sent(sys._getframe().f_back, self, self.dtype, goes_on, original, self, *args, **kwargs)

    return move


def _copy_(original: Callable[..., Any]) -> Callable[..., Any]:
    def copy_(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        source: Any = args[0] if args else kwargs.get("src", kwargs.get("other"))
        if not plain(self) or not plain(source):
            return aside(original, self, *args, **kwargs)
        if patches.deep or self.is_cpu is source.is_cpu:
            patches.idle += 1
            return original(self, *args, **kwargs)
        goes_on, frame = _goes_on(kwargs, args[1:]), sys._getframe().f_back
        if self.is_cpu:
            return _fetched("copy_", frame, goes_on, original, self, *args, **kwargs)
        return _sent(frame, source, self.dtype, goes_on, original, self, *args, **kwargs)

    return copy_


def _fetched(
    which: str, frame: FrameType | None, goes_on: bool, call: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call it: a copy to the host is waited for, unless it was asked to go on."""
    return call(*args, **kwargs) if goes_on else noted(which, frame, call, *args, **kwargs)


def _sent(
    frame: FrameType | None, source: Any, dtype: Any, goes_on: bool,
    call: Callable[..., Any], /, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call it, and write down what it brings to the device, and how."""
    under_way = begin("copy", frame, lambda site: _describe(source, dtype, goes_on, frame, site))
    try:
        return call(*args, **kwargs)
    finally:
        if under_way is not None:
            under_way.end(wire.DEVICE_COPY)


def _describe(
    source: Any, dtype: Any, goes_on: bool, frame: FrameType | None, site: int
) -> tuple[int, int, int]:
    """Bytes, bits and type of what crosses. A copy that blocks changes the type on the host, one that goes on
    does so on the device; what is not contiguous is made so on the host, in pageable memory (torch's
    ``aten/src/ATen/native/cuda/Copy.cu``). From there it blocks, whatever was asked."""
    crossing = source.dtype if goes_on else dtype
    as_it_is = crossing == source.dtype and (
        source.is_contiguous() or source.is_contiguous(memory_format=Own.channels_last)
    )
    # Not asked while a dispatch mode is active: `is_pinned` would be dispatched to it, too.
    pinned = as_it_is and not Own.dispatching() and bool(source.is_pinned())
    bits = (PINNED if pinned else 0) | (0 if pinned and goes_on else BLOCKING)
    if frame is not None and _made(site, frame):
        bits |= JUST_MADE
    look = state.look
    if look is not None and look.stream != state.accelerator.stream():
        bits |= OTHER_STREAM
    if look is not None and state.inside is not None and state.inside.thread == look.thread:
        bits |= IN_NEXT
        look.copies += 1
    return source.numel() * crossing.itemsize, bits, Own.dtypes.get(crossing, 0)


def _made(site: int, frame: FrameType) -> bool:
    """Whether the line that copies says that it makes what it copies; its text is read once."""
    known = patches.makers.get(site)
    if known is None:
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
        known = patches.makers[site] = MADE.search(text) is not None
    return known
