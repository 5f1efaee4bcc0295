"""Notes whether the script captures CUDA graphs: a profiler that comes and goes can crash such a program."""

from __future__ import annotations

from .guard import quiet, replace
from .pulse import state
from .types import Any, Callable

SAFE_FROM = (12, 6)  # CUDA; torch.profiler itself keeps CUPTI loaded below it where there are graphs


def patch(module: Any) -> None:
    """``module`` is torch.cuda.graphs; ``torch.cuda.graph`` and torch.compile's trees come by here, too."""
    replace(module.CUDAGraph, "capture_begin", _noted)


def _noted(original: Callable[..., Any]) -> Callable[..., Any]:
    def capture_begin(*args: Any, **kwargs: Any) -> Any:
        if not state.graphs:
            _note()
        return original(*args, **kwargs)

    return capture_begin


@quiet
def _note() -> None:
    state.graphs = True
    state.book.fact(fact="cuda_graphs")


def may_profile(cuda: str | None) -> bool:
    """Whether CUPTI may be started and stopped in this process; ``cuda`` is torch.version.cuda."""
    if not state.graphs or cuda is None:
        return True
    try:
        return tuple(int(part) for part in cuda.split(".")[:2]) >= SAFE_FROM
    except ValueError:
        return False
