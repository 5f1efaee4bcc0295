"""Switches off what hunts for mistakes in every step.

Options: ``drop``, "anomaly" for autograd's detection of NaN, "tracer" for the trace and profile functions of
the training's thread, such as coverage's or a debugger's.
"""

from __future__ import annotations

import sys
import threading

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .hook_points import at_first_backward


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Detection of NaN never comes on; a tracer goes when the first backward pass begins."""
    if options["drop"] == "anomaly":
        return {
            "torch": lambda torch: wrap(torch, "set_anomaly_enabled", lambda original: _off(original, done))
        }

    def untraced(torch: Any) -> None:
        there = sys.gettrace() is not None or sys.getprofile() is not None
        for one in (sys.settrace, sys.setprofile, threading.settrace, threading.setprofile):
            one(None)
        done("" if there else "no trace or profile function was there")

    return at_first_backward(untraced, done)


def _off(original: Callable[..., None], done: Done) -> Callable[..., None]:
    def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
        if mode:
            done()
        original(False, check_nan)

    return set_anomaly_enabled
