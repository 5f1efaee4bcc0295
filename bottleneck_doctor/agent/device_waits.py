"""Notes calls that wait for the device, by the user's line, in the looks in which hooks are on.

The time inside is mostly the device finishing what had to be done anyway: what a wait costs shows in the
idle time after it. Calls inside of such a call belong to it. Not seen, since compiled and scripted code knows
functions of torch by identity: ``torch.nonzero``, ``torch.unique``, ``torch.where`` with one argument; a
profiler's window shows them without their line. Not yet proven on hardware.
"""

from __future__ import annotations

import sys
from time import monotonic_ns as now

from . import device_clock, wire
from .guard import quiet
from .hints import TYPE_CHECKING, Any, Callable, FrameType
from .state import state
from .tensor_hooks import ALWAYS, WINDOWS, aside, ears, hook

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

    tensor: type = object
    dtype: type = object
    device: type = object
    channels_last: Any = None
    types: tuple[type, ...] = ()
    modes: Callable[[], int] = int
    mode_at: Callable[[int], object] = int
    dispatching: Callable[[], int] = int


def patch(torch: Any) -> None:
    """Make the hooks ready; ``torch`` is complete and its device in use."""
    Own.tensor, Own.types = torch.Tensor, (torch.Tensor, torch.nn.Parameter)
    Own.dtype, Own.device, Own.channels_last = torch.dtype, torch.device, torch.channels_last
    Own.modes, Own.mode_at = torch._C._len_torch_function_stack, torch._C._get_function_stack_at
    Own.dispatching = torch._C._len_torch_dispatch_stack
    for name, kind in METHODS.items():
        hook(torch.Tensor, name, _method(kind))
    hook(torch.Tensor, "__getitem__", _masked, WINDOWS)
    for name in BINDINGS:
        hook(torch._C, name, _function("synchronize"))
    device = getattr(torch, state.accelerator.kind, None)
    for name, kind in (("Stream", "stream"), ("Event", "event")):
        if hasattr(device, name):
            hook(getattr(device, name), "synchronize", _function(kind))
    for name in EMPTYING:
        hook(torch._C, name, _emptying, ALWAYS)


def plain(tensor: Any) -> bool:
    """Whether nobody but torch itself will hear of a call on it."""
    return type(tensor) in Own.types and (not Own.modes() or _own_modes())


def _own_modes() -> bool:
    """That of ``torch.set_default_device`` hands on what it is told."""
    modes = [type(Own.mode_at(place)) for place in range(Own.modes())]
    return all(mode.__module__ == "torch.utils._device" for mode in modes)


class SyncCall:
    """A call that is under way: its token of the device's clock, its place, and its name in a trace."""

    __slots__ = ("columns", "site", "span", "token")

    def __init__(self, kind: str, frame: FrameType, describe: Callable[[int], Columns]) -> None:
        entry = now()
        self.site = state.site(kind, frame)
        self.columns = describe(self.site)
        self.span = state.window.name(kind, frame) if state.window is not None else None
        self.token = device_clock.begin()
        ears.deep = True
        state.hooks_ns += now() - entry

    @quiet
    def end(self, row: int) -> None:
        """It is over: a row of this kind, if the hooks are still on."""
        end = now()
        ears.deep = False
        if self.span is not None:
            self.span.end()
        if ears.on and self.token is not None:
            device_clock.note(self.token, row, self.columns, self.site)
        state.hooks_ns += now() - end


def begin(kind: str, frame: FrameType, describe: Callable[[int], Columns]) -> SyncCall | None:
    """The call that begins, if it is the sampled step's own; ``describe`` tells the columns of its row from
    its site, and is asked before the clock starts."""
    look = state.look
    try:
        if look is None or look.thread != state.thread() or not state.accelerator.ready():
            return None
        return SyncCall(kind, frame, describe)
    except Exception:
        return None


def noted(which: str, frame: FrameType, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
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
            if ears.deep or self.is_cpu:
                ears.idle += 1
                return original(self, *args, **kwargs)
            return noted(which, sys._getframe(1), original, self, *args, **kwargs)

        return wait

    return build


def _function(which: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*args: Any, **kwargs: Any) -> Any:
            if ears.deep:
                return original(*args, **kwargs)
            return noted(which, sys._getframe(1), original, *args, **kwargs)

        return wait

    return build


def _masked(original: Callable[..., Any]) -> Callable[..., Any]:
    """A mask chooses as many elements as the device says."""

    def __getitem__(self: Any, index: Any, /) -> Any:
        if not plain(self):
            return aside(original, self, index)
        if ears.deep or self.is_cpu or not _holds_mask(index):
            ears.idle += 1
            return original(self, index)
        return noted("mask", sys._getframe(1), original, self, index)

    return __getitem__


def _holds_mask(index: Any) -> bool:
    parts = index if type(index) is tuple else (index,)
    return any(type(one) in Own.types and str(one.dtype) in ("torch.bool", "torch.uint8") for one in parts)


def _emptying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Counted outside of looks as well, until graphs are compiled: they may hold it."""

    def empty(*args: Any, **kwargs: Any) -> Any:
        state.emptied += 1
        return noted("empty_cache", sys._getframe(1), original, *args, **kwargs)

    return empty
