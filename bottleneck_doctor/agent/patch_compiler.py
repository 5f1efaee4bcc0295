"""Keeps torch.compile out of the agent: none of our frames is traced, and our hooks vanish from graphs.

A compiled training step calls what we wrapped. Traced, each of our clock readings would break its graph and
each of our counters would be a guard that fails at the next step, until the recompile limit is hit.
"""

from __future__ import annotations

import os

from .types import Any, Callable


def patch(module: Any) -> None:
    """``module`` is torch._dynamo.trace_rules: have it skip our files, all but this one."""
    folder, this = os.path.split(os.path.abspath(__file__))
    ours = [name for name in os.listdir(folder) if name.endswith(".py") and name != this]
    module.SKIP_DIRS.extend(os.path.join(folder, name) for name in (*ours, "treatments"))
    module._recompile_re()


def _never() -> bool:
    return False


tracing: Callable[[], bool] = _never


def know(torch: Any) -> None:
    """torch is complete: from now on we can tell whether a graph is being traced."""
    global tracing
    tracing = torch.compiler.is_compiling


def unless_traced(hook: Callable[..., None]) -> Callable[..., None]:
    """The hook, and nothing while a graph is traced: this much the tracer may read, and folds away."""

    def untraced(*args: Any) -> None:
        if not tracing():
            hook(*args)

    return untraced


def outside_of_graphs(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``build`` for what compilers trace into: while they do, they see the original."""

    def both(original: Callable[..., Any]) -> Callable[..., Any]:
        ours = build(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if tracing() else ours(*args, **kwargs)

        return call

    return both


def patch_module(module: Any) -> None:
    """``module`` is torch._dynamo.eval_frame: the call of a compiled module ends the gap before it."""
    from .guard import replace
    from .own_loop import called_module, returned
    from .pulse import state

    def call(original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if tracing() or not state.close or not called_module():
                return original(self, *args, **kwargs)
            try:
                return original(self, *args, **kwargs)
            finally:
                returned()

        return __call__

    replace(module.OptimizedModule, "__call__", call)
