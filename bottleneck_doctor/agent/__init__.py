"""The guest: hooks that a training process carries when it is run under ``bdoc``.

Standard library only; no threads, no sockets, and one exit hook that notes the instant. ``arm`` is called by
the door (``inject/sitecustomize.py``); where a launcher keeps that door shut (``python -I``), a script may
call ``import bottleneck_doctor.agent; bottleneck_doctor.agent.arm()`` itself.
"""

from __future__ import annotations

import os
import sys

from .hints import Table


def arm(folder: str | None = None) -> None:
    """Install every hook, once. Without a run folder of this user's (argument or BDOC_RUN) this does nothing;
    nor where Python runs without its global lock, on which the rows of several threads rely."""
    folder = folder or os.environ.get("BDOC_RUN")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    if not folder or getattr(sys, "_bdoc_armed", False):
        return
    try:
        from .wire import is_ours

        if not is_ours(folder):
            return
        _install(folder)
        sys._bdoc_armed = True  # type: ignore[attr-defined]
    except Exception:  # a training without measurements is better than no training
        pass


def _install(folder: str) -> None:
    from . import hooks, input_ops, state

    state.begin(folder)
    state.introduce()
    above: list[Table] = []
    if os.environ.get("BDOC_KEEP") or os.environ.get("BDOC_TRIAL"):
        from . import trial

        above = trial.begin(hooks.finder.add)

    def torch_is_looked_for() -> None:
        from . import torch_setup

        torch_setup.begin()
        hooks.finder.add(hooks.table(), *above)

    hooks.finder.add(*input_ops.watchers())
    hooks.finder.before("torch", torch_is_looked_for)
