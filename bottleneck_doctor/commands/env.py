"""Show what can be measured on this machine, what cannot, why, and how to allow it."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

from ..model.instruments import Capability
from .cli import declared
from .options import PYTHON, read_settings
from .output import say, screen


def main(python: Annotated[str | None, declared(PYTHON)] = None) -> int:
    """Show what can be measured on this machine, what cannot, why, and how to allow it."""
    from ..launch.start import choose
    from ..render.terminal import capabilities_text
    from ..sense.capabilities import list_capabilities

    target = describe(choose(read_settings().of(PYTHON, python)))
    shown = screen(sys.stdout)
    say(
        capabilities_text([target, *list_capabilities()], shown.width, shown.color, shown.encoding),
        shown.encoding,
    )
    return 0


PATIENCE_S = 20.0
QUESTION = """
import sys
sys.path[:] = filter(None, sys.path)  # modules in the working directory may be another user's
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
    name, do = "python and torch", "name the training's interpreter with --python PATH"
    try:
        done = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        return Capability(name, False, f"{python} could not be asked: {problem}", do)
    version, bar, torch = (done.stdout.strip().splitlines() or [""])[-1].partition("|")
    if done.returncode or not bar:
        return Capability(name, False, f"{python} left with status {done.returncode}", do)
    if not torch:
        return Capability(name, False, f"python {version} at {python} has no torch", do)
    return Capability(name, True, f"python {version} at {python}, torch {torch}")
