"""Times functions of the user's as sources of batches: ``--data-fn module:function``."""

from __future__ import annotations

import functools
import os
import sys
from time import monotonic_ns as now

from . import wire
from .guard import put, quiet
from .hints import Any, Callable, ModuleType
from .loader import _arrival
from .state import IteratorCounts, state

FIRST_NUMBER = 1 << 16  # above any loader's number in its process
_wanted: list[tuple[int, str, str]] = []


def mark(text: str) -> None:
    """Remember what to wrap: ``module:function``, comma between several; ``__main__`` is the script."""
    for number, item in enumerate(part for part in text.split(",") if part):
        module, _, name = item.partition(":")
        _wanted.append((FIRST_NUMBER + number, module, name))


@quiet
def look() -> None:
    """Wrap each function whose module holds it by now; called when the training begins to move."""
    for wish in list(_wanted):
        number, name, attribute = wish
        module = sys.modules.get(name) or _script(name)
        function = getattr(module, attribute, None)
        if callable(function):
            _wanted.remove(wish)
            account = _introduced(number, attribute, function)
            put(module, attribute, _timed(function, account), function)


def _script(name: str) -> ModuleType | None:
    """The script itself, when it is named by its file."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None) or ""
    return main if os.path.splitext(os.path.basename(file))[0] == name else None


def _introduced(number: int, name: str, function: Callable[..., Any]) -> IteratorCounts:
    code = getattr(function, "__code__", None)
    file, line = (os.path.abspath(code.co_filename), code.co_firstlineno) if code else ("", 0)
    state.writer.fact(
        fact="loader", thing=number, kind="function", dataset=name, file=file, line=line, function=name,
        num_workers=0,
    )  # fmt: skip
    state.iterators += 1
    account = IteratorCounts(number, state.iterators, state.thread())
    state.row(wire.EPOCH, now(), 0, account.number, thing=number, thread=state.thread())
    return account


class _Call:
    """One call of the function, in the shape of an iterator that is asked once."""

    def __init__(self, account: IteratorCounts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._bdoc, self.args, self.kwargs = account, args, kwargs


def _timed(function: Callable[..., Any], account: IteratorCounts) -> Callable[..., Any]:
    taken = _arrival(lambda call: function(*call.args, **call.kwargs))

    @functools.wraps(function)
    def fetch(*args: Any, **kwargs: Any) -> Any:
        return taken(_Call(account, args, kwargs))

    return fetch
