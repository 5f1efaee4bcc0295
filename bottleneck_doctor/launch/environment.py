"""The environment of the training: the user's own, plus the few variables that let the agent in."""

from __future__ import annotations

import os
from collections.abc import Mapping

PREFIX = "BDOC_"
RUN = "BDOC_RUN"
AGENT = "BDOC_AGENT"

Setting = str | int | float | bool | None


def instrumented(
    environ: Mapping[str, str],
    run_folder: str,
    inject_dir: str,
    agent_dir: str,
    settings: Mapping[str, Setting],
) -> dict[str, str]:
    """A copy of ``environ`` in which Python finds the agent; ``{"max_steps": 9}`` becomes BDOC_MAX_STEPS=9.

    ``None`` leaves a setting out. Inside another ``bdoc run`` the inner one takes over completely: limits
    meant for the outer training must not end the inner one.
    """
    nested = RUN in environ
    result = {name: value for name, value in environ.items() if not (nested and name.startswith(PREFIX))}
    result["PYTHONPATH"] = _first(os.path.abspath(inject_dir), environ.get("PYTHONPATH", ""))
    for name, value in settings.items():
        if value is not None:
            result[PREFIX + name.upper()] = _text(value)
    result[RUN] = os.path.abspath(run_folder)
    result[AGENT] = os.path.abspath(agent_dir)
    return result


def _first(inject_dir: str, path: str) -> str:
    """``inject_dir`` before everything that was there, and there only once.

    An empty PYTHONPATH means none, yet an empty entry in a longer one means the working directory.
    """
    before = path.split(os.pathsep) if path else []
    return os.pathsep.join([inject_dir, *(entry for entry in before if entry != inject_dir)])


def _text(value: str | int | float | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
