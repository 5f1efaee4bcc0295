"""What we put in a function's place looks like it, and keeps our mistakes inside."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

from bottleneck_doctor.agent.guard import quiet, replace


class Loader:
    """Somebody's class."""

    def fetch(self, index: int, *, fast: bool = False) -> int:
        """Somebody's method."""
        return index + 1


def doubled(original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return 2 * original(self, *args, **kwargs)

    return wrapper


def test_a_replaced_method_keeps_name_signature_and_pickles() -> None:
    original, signature = Loader.fetch, inspect.signature(Loader.fetch)
    replace(Loader, "fetch", doubled)
    try:
        assert Loader().fetch(1) == 4
        assert (Loader.fetch.__qualname__, Loader.fetch.__doc__) == ("Loader.fetch", "Somebody's method.")
        assert inspect.signature(Loader.fetch) == signature
        assert pickle.loads(pickle.dumps(Loader.fetch)) is Loader.fetch
        replace(Loader, "fetch", doubled)
        assert Loader().fetch(1) == 4, "once is enough"
    finally:
        Loader.fetch = original  # type: ignore[method-assign]


def test_what_is_not_there_is_not_replaced() -> None:
    replace(Loader, "collate", doubled)
    assert not hasattr(Loader, "collate")


def test_what_a_class_inherits_is_not_replaced_in_it() -> None:
    class Child(Loader):
        pass

    replace(Child, "fetch", doubled)
    assert "fetch" not in vars(Child)


def test_a_hook_that_fails_says_nothing() -> None:
    @quiet
    def hook() -> None:
        raise RuntimeError("ours")

    hook()


def warns() -> None:
    warnings.warn("this is the caller's", stacklevel=2)


def test_a_warning_of_what_was_replaced_names_its_callers_line() -> None:
    build = eval(compile("lambda original: lambda: original()", "a_hook.py", "eval"))
    replace(inspect.getmodule(warns), "warns", build)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warns()
    assert [one.filename for one in told] == [__file__]
