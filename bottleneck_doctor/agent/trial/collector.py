"""Keeps Python's garbage collector away from what lives as long as the training.

Options: none to freeze once what lives when the first backward pass begins, or ``every`` so many passes at
which young objects are collected, and at no other time.
"""

from __future__ import annotations

import gc

from ..hints import Any, Done, Table
from .hook_points import after_backward, at_first_backward, together


def watchers(options: dict[str, Any], done: Done) -> Table:
    """At the first backward pass: by then data set, model and workers are there."""
    every = int(options.get("every", 0))

    def freeze(torch: Any) -> None:
        gc.collect()
        gc.freeze()
        done()

    def rest(torch: Any) -> None:
        gc.disable()
        done()

    def collect(count: int) -> None:
        if count % every == 0:
            gc.collect(1)

    if not every:
        return at_first_backward(freeze, done)
    return together(at_first_backward(rest, done), after_backward(collect, done))
