"""Keeps our exceptions inside, lets the script's own out, and puts wrappers in the place of functions."""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from .hints import Any, Callable

undo: list[Callable[[], Any]] = []  # takes off what is put on, the last first (agent/leaving.py)


def quiet(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a hook so that none of its exceptions escapes: it returns None then. What a signal handler of the
    script raises while the hook runs is the script's, and does escape."""

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception as error:
            if from_signal(error):
                raise
            return None

    guarded.__name__ = getattr(hook, "__name__", "hook")
    return guarded


class GuardedBlock:
    """A block whose exceptions are given to ``failed``, but for those that a signal handler raised."""

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        self.failed = failed

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception) or from_signal(error):
            return False
        self.failed(error)
        return True


def attributes(thing: Any) -> dict[str, Any]:
    """What stands in the object's own ``__dict__``, without a call of its ``__getattr__``."""
    try:
        found: dict[str, Any] = object.__getattribute__(thing, "__dict__")
        return found
    except AttributeError:
        return {}


def from_signal(error: BaseException) -> bool:
    """Whether a signal handler raised it. Python calls a handler with the frame that the signal interrupted,
    which is the handler's own caller; no other function is called like that."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        interrupted, at = at.tb_frame, at.tb_next
        for value in at.tb_frame.f_locals.values():
            if any(one is interrupted for one in (value if type(value) is tuple else (value,))):
                return True
    return False


postponed: list[tuple[int, BaseException]] = []  # (thread, exception), raised by that thread's next hook


def postpone(error: BaseException) -> None:
    """Keep what a signal handler raised where Python drops all exceptions, as in a callback of the collector.
    The agent's own mistakes are dropped."""
    if from_signal(error) or not isinstance(error, Exception):
        postponed.append((get_ident(), error))


def raise_postponed() -> None:
    """Raise what was postponed in this thread, if anything was."""
    for entry in postponed:
        if entry[0] == get_ident():
            postponed.remove(entry)
            raise entry[1]


def without_overrides(hook: Callable[..., Any]) -> Callable[..., Any]:
    """As ``quiet``, for a hook that asks tensors: torch calls no ``__torch_function__`` of the script."""

    def plainly(*args: Any, **kwargs: Any) -> Any:
        with sys.modules["torch"]._C.DisableTorchFunction():
            return hook(*args, **kwargs)

    return quiet(plainly)


def dispatching() -> bool:
    """Whether a dispatch mode of the script is on: it would be called for each of the agent's operators."""
    return bool(sys.modules["torch"]._C._len_torch_dispatch_stack())


def overheard() -> bool:
    """Whether a dispatch mode or a profiler is on, which counts them."""
    return dispatching() or sys.modules["torch"].autograd._profiler_enabled()


def uncounted(function: Any) -> Any:
    """`warnings` skips frames of such a file: a warning below names the line of the user, or torch's."""
    code = function.__code__
    function.__code__ = code.replace(co_filename=code.co_filename + " importlib._bootstrap")
    return function


class InC:
    """Stands for a function of C: in a class of the script's that is no method, and gets no ``self``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __reduce__(self) -> Any:
        return self.__dict__["__qualname__"]


def replace(owner: Any, name: str, build: Callable[[Any], Any]) -> None:
    """Put ``build(original)`` in the place of ``owner.name``, once, under the original's name.

    The wrapper keeps ``__module__`` and ``__qualname__``, so that spawn pickles it by reference, and
    ``__wrapped__``, so that ``inspect.signature`` (Lightning reads it) sees the original. Dynamo traces the
    original in its place.
    """
    original = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if original is None or hasattr(original, "_bdoc_original"):
        return
    import functools  # the user's program has it by now; a start would wait for it

    wrapper = build(original)
    try:
        functools.update_wrapper(uncounted(wrapper), original)
    except (AttributeError, TypeError):
        pass
    if not hasattr(original, "__get__"):
        wrapper = functools.update_wrapper(InC(wrapper), original)
    if not isinstance(owner, type) and wrapper.__module__ != owner.__name__:  # as of os.fsync: posix has it
        wrapper.__module__, wrapper.__qualname__ = owner.__name__, name
    wrapper._bdoc_original = original
    if hasattr(original, "__code__"):
        wrapper._torchdynamo_inline = original
    put(owner, name, wrapper, original)


def when_built(note: Callable[..., object]) -> Callable[[Any], Any]:
    """For ``replace`` of an ``__init__``: ``note(object, the caller's frame, keywords)`` comes after it."""

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            quiet(note)(self, sys._getframe().f_back, kwargs)

        return __init__

    return build


def put(owner: Any, name: str, value: Any, before: Any) -> None:
    """Set an attribute; `undo` restores ``before`` unless the attribute was changed since."""
    setattr(owner, name, value)
    undo.append(lambda: setattr(owner, name, before) if vars(owner).get(name) is value else None)


def replace_each(module: Any, names: tuple[str, ...], build: Callable[[Any], Any]) -> None:
    """``replace`` functions (``name``) and methods (``Class.name``) of a module; absent ones are skipped."""
    for name in names:
        owner, _, attribute = name.rpartition(".")
        where = getattr(module, owner, None) if owner else module
        if where is not None:
            replace(where, attribute, build)


def at_fork(call: Callable[[], Any], when: str = "after_in_child") -> None:
    """As ``os.register_at_fork``, which never forgets a call: from this list it can be taken."""
    forks: dict[str, list[Any]] = vars(sys).setdefault("_bdoc_forks", {})
    if when not in forks:
        forks[when] = []
        os.register_at_fork(**{when: lambda: [one() for one in forks[when]]})
    forks[when].append(quiet(call))


kept: list[object] = []
os.register_at_fork(before=kept.__len__)  # the interpreter lets go of what it holds here last of all


def keep(thing: Any) -> Any:
    """Never let it be freed. A map holds a duplicate of its descriptor and closes that number when it goes;
    by then a script that closed all it did not know, as daemons do, may have a pipe of its own there."""
    kept.append(thing)
    return thing


def never_free(thing: Any) -> Any:
    """As ``keep``, and not even when the interpreter ends: one reference too many is never given back. torch
    asks the driver when an event is freed; in a forked child, or after an error that the device keeps, that
    ends the process with SIGABRT (pytorch #189725)."""
    ctypes: Any = sys.modules.get("ctypes")  # torch has loaded it
    if ctypes is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return keep(thing)
