"""Lets a profiler of the script's begin while ours is on: torch refuses a second one, so ours ends first.

And knows of one that is prepared: a recording of ours would end what torch keeps for it, and the process.
"""

from __future__ import annotations

import sys

from .guard import replace
from .hints import Any, Callable

NAMES = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
MODULES = ("torch.autograd.profiler", "torch.autograd.profiler_legacy")

prepared = [False]  # whether a profiler of the script's is in warm-up, or on


def patch(module: Any) -> None:
    """``module`` is torch.autograd.profiler. torch tells of a profiler that is on, not of its warm-up."""
    for name, after in (
        ("_prepare_profiler", True),
        ("_enable_profiler", True),
        ("_disable_profiler", False),
    ):
        replace(module, name, _noting(after))


def _noting(after: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            prepared[0] = after
            return original(*args, **kwargs)

        return noting

    return build


_instead: list[tuple[Any, str, Any, Any]] = []  # module, name, ours, torch's


def watch(leave: Callable[[], object]) -> None:
    """Call ``leave`` before any of torch's own profilers begins. Our windows call torch by other names."""
    for module in MODULES:
        for name in NAMES:
            begin = getattr(sys.modules.get(module), name, None)
            if begin is not None:
                _instead.append((sys.modules[module], name, _after(leave, begin), begin))
    for owner, name, ours, _ in _instead:
        setattr(owner, name, ours)


def rest() -> None:
    """Our window is closed: everything is as torch has it."""
    while _instead:
        owner, name, ours, begin = _instead.pop()
        if getattr(owner, name) is ours:
            setattr(owner, name, begin)


def _after(leave: Callable[[], object], begin: Callable[..., Any]) -> Callable[..., Any]:
    def ours_first(*args: Any, **kwargs: Any) -> Any:
        leave()
        return begin(*args, **kwargs)

    return ours_first
