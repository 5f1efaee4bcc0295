"""Puts hooks on torch's tensors in some sampled steps; between them torch has its own methods.

A method that is replaced on ``torch.Tensor`` is seen by all code that looks it up. Torch's own methods are
put back

- before a module is imported and before a graph is traced: both keep what they see;
- around calls on subclasses of tensors and in modes of torch functions: these are given the
  function that is called, and may know torch's own only.

Python stops caching the attributes of a class that was changed a thousand times (3.13 and newer): how often
the hooks go on is limited, and they do so ever more rarely.
"""

from __future__ import annotations

import functools
from types import MethodType

from . import compiler, hooks, wire
from .guard import at_fork, quiet, undo
from .hints import TYPE_CHECKING, Any, Callable
from .state import state

if TYPE_CHECKING:
    Hook = tuple[Any, str, Any, Any, str]  # owner, name, wrapper, what the owner itself has, when

FIRST_LOOK = 8  # the steps before load modules, build caches, compile
DOUBLED_AFTER = 24  # looks with hooks on, the distance to the next doubles
PUT_ON_AT_MOST = 400  # in a process: each time changes classes twice
COMPILED_AT_MOST = 4  # looks: older compilers may trace anew because of us, and stop after eight times
CALLS_FOR_A_LOOK = 16  # that had nothing to do with the device put the next time off by one look
IDLE_AT_MOST = 500  # such calls in a look, or what is hooked in windows only is left alone
INHERITED = object()
LOOKS, WINDOWS, ALWAYS = "looks", "windows", "always"  # when a hook is on; always: until a graph is compiled


class HookedMethod:
    """What stands in the place of a method: equal to torch's own, for tables of methods; pickled as that."""

    def __init__(self, owner: type, function: Callable[..., Any], original: Any) -> None:
        functools.update_wrapper(self, original)
        self.owner, self.original = owner, original
        self.function = functools.update_wrapper(function, original)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self.function, instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __reduce__(self) -> Any:
        return getattr, (self.owner, self.original.__name__)


class TensorHooks:
    """What can be put on, whether it is on, and when it is to be on again."""

    def __init__(self) -> None:
        self.hooks: list[Hook] = []
        self.on = False
        self.compiled = False  # a graph was traced: from then on nothing that it may hold stays on
        self.traced = 0  # looks in which a graph was
        self.deep = False  # inside of a call that is noted: what it calls belongs to it
        self.looks = self.sampled = 0
        self.next = FIRST_LOOK
        self.left = PUT_ON_AT_MOST
        self.makers: dict[int, bool] = {}  # site -> whether it makes what it copies
        self.busy = False  # too many of these were seen
        self.idle = 0  # calls on tensors of the host, while on
        self.warns: Callable[[], int] = int  # torch's mode of warning of waits: a warning would name our file


patches = TensorHooks()


def hook(owner: Any, name: str, build: Callable[[Any], Any], when: str = LOOKS) -> None:
    """Make ready what will stand in the place of ``owner.name``; what the owner lacks is left out."""
    original = getattr(owner, name, None)
    if original is None:
        return
    if isinstance(owner, type):
        wrapper: Any = HookedMethod(owner, build(original), original)
    else:
        wrapper = functools.update_wrapper(build(original), original)
    patches.hooks.append((owner, name, wrapper, vars(owner).get(name, INHERITED), when))


@quiet
def install(compiled: bool) -> None:
    """Once, when all hooks are ready. ``compiled``: graphs have been traced already."""
    patches.compiled = compiled
    hooks.before_search.append(hush)
    compiler.starting.append(_compiles)
    at_fork(_forget)
    undo.append(_forget)
    if not compiled:
        _set(ALWAYS)


def listen() -> bool:
    """A sampled step begins: put the hooks on if due, or in a profiler window. Whether they are on."""
    rest()
    if not patches.hooks:
        return False
    compiler.watch()
    patches.looks += 1
    if not patches.left or patches.warns() or (patches.looks < patches.next and not _traced()):
        return False
    patches.sampled += 1
    patches.idle = 0
    _put_on()
    return patches.on


@quiet
def rest() -> None:
    """The sampled step is over: take the hooks off."""
    if patches.on:
        _take_off()
        patches.deep, patches.busy = False, patches.busy or patches.idle > IDLE_AT_MOST
        distance = 1 << min(patches.sampled // DOUBLED_AFTER, 30)
        patches.next = patches.looks + max(distance, patches.idle // CALLS_FOR_A_LOOK)


@quiet
def hush() -> None:
    """Take them off within a sampled step; its copies and waits then count as not recorded."""
    if patches.on:
        rest()
        look = state.look
        if look is not None:
            look.copies = wire.NOTHING
            look.parts = [one for one in look.parts if one[2][0] not in (wire.DEVICE_COPY, wire.DEVICE_WAIT)]


def aside(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call it with all hooks off, and put them on again."""
    if not patches.on:
        return call(*args, **kwargs)
    _take_off()
    try:
        return call(*args, **kwargs)
    finally:
        look = state.look  # read once: another thread may end it
        if look is not None and look.copies != wire.NOTHING:
            _put_on()


@quiet
def _put_on() -> None:
    patches.on = True
    if not patches.left:  # from here on nothing is recorded in this sampled step
        hush()
        return
    patches.left -= 1
    _set(LOOKS, ALWAYS, WINDOWS if _traced() and not patches.busy else "")


def _traced() -> bool:
    return getattr(state.window, "trace", None) is not None


def _set(*when: str) -> None:
    for owner, name, wrapper, own, its_time in patches.hooks:
        if its_time in when and vars(owner).get(name, INHERITED) is own:
            setattr(owner, name, wrapper)  # a wrapper that the script has put there stays


def _take_off() -> None:
    patches.on = False
    for owner, name, wrapper, own, its_time in patches.hooks:
        if vars(owner).get(name) is wrapper and (its_time != ALWAYS or patches.compiled):
            if own is INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


@quiet
def _compiles() -> None:
    """A graph is about to be traced."""
    if patches.on:
        patches.traced += 1
        if patches.traced >= COMPILED_AT_MOST:
            patches.left = 0
    hush()
    if not patches.compiled:
        patches.compiled = True
        _take_off()


def _forget() -> None:
    """In a forked child, whose parent's look is not its own; and when we leave."""
    patches.compiled = True
    _take_off()
    patches.hooks.clear()
