"""Asks the Python that would run the training which versions it has, without importing torch."""

from __future__ import annotations

import subprocess

from ..model.instruments import Capability

PATIENCE_S = 20.0
QUESTION = """
import platform
from importlib import metadata
try:
    torch = metadata.version("torch")
except Exception:
    torch = ""
print(platform.python_version() + "|" + torch)
"""


def describe(python: str) -> Capability:
    """The interpreter and its torch, as one row of the table."""
    name = "python and torch"
    try:
        done = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return Capability(
            name, False, f"{python} could not be asked: {problem}", "name another with --python PATH"
        )
    version, bar, torch = (done.stdout.strip().splitlines() or [""])[-1].partition("|")
    if done.returncode or not bar:
        why = f"{python} left with status {done.returncode}"
        return Capability(name, False, why, "name another with --python PATH")
    if not torch:
        missing = f"python {version} at {python} has no torch"
        return Capability(name, False, missing, "name the training's interpreter with --python PATH")
    return Capability(name, True, f"python {version} at {python}, torch {torch}")
