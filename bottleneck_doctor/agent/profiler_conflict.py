"""Ends the agent's profiler window before a profiler of the script's begins: torch refuses a second one.

Also while one is prepared: a window would discard the state that torch keeps for it and end the process.
"""

from __future__ import annotations

from .guard import replace
from .hints import Any, Callable

# What torch's profilers call, and whether one is on from then on. Our windows call torch by other names.
NAMES = {
    "_prepare_profiler": True, "_enable_profiler": True, "_disable_profiler": False,
    "_enable_profiler_legacy": True, "_disable_profiler_legacy": False,
}  # fmt: skip
prepared = [False]  # a profiler of the script's is in warm-up, which torch does not tell, or on
before: list[Callable[[], object]] = []  # called when one begins


def patch(module: Any) -> None:
    """``module`` is torch.autograd.profiler, or profiler_legacy."""
    for name, begins in NAMES.items():
        replace(module, name, _noting(begins))


def _noting(begins: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            for leave in before if begins else ():
                leave()
            prepared[0] = begins
            return original(*args, **kwargs)

        return noting

    return build
