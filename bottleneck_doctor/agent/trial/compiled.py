"""Compiles each outermost model in place, as ``model.compile()`` does. No options.

The first call is the model's own, the second compiles, and so does the first of another batch size, which a
ragged last batch has, and of an evaluation. All of that belongs into warm-up. Where the compiler fails, the
model goes on as it was, and that is said.
"""

from __future__ import annotations

import importlib

from ..hints import Any, Callable, Done, Table
from .hook_points import at_models

CONFIG = "torch._dynamo.config"
COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch")  # whose exceptions are not the model's


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Each outermost model, when it is first called."""

    def act(module: Any) -> None:
        with _whole():
            module.compile()
        module._compiled_call_impl = _first(module, module._compiled_call_impl, done)

    return at_models(act, done)


def _whole() -> Any:
    """Without it a plain ``Sequential`` is not compiled at all: torch's own frames are passed over."""
    return importlib.import_module(CONFIG).patch(wrap_top_frame=True)


def _first(module: Any, compiled: Callable[..., Any], done: Done) -> Callable[..., Any]:
    """Calls the compiled model until that has worked, and then is no longer in the way."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = compiled(*args, **kwargs)
        except Exception as problem:
            if not type(problem).__module__.startswith(COMPILERS):
                raise
            module._compiled_call_impl = None
            done("%s: %s" % (type(problem).__name__, problem))
            return module(*args, **kwargs)
        module._compiled_call_impl = compiled
        done()
        return result

    return call
