"""Chooses the Python that runs the training: the one asked for, else one that is likely to have torch."""

from __future__ import annotations

import importlib.util
import shutil
import sys

from .command import CannotStart


def choose(requested: str | None = None) -> str:
    """The path of the interpreter. ``bdoc`` may be installed apart from torch, so its own comes last."""
    if requested is not None:
        return _executable(requested)
    own = sys.executable or None
    if own is not None and _torch_is_here():
        return own
    found = shutil.which("python") or shutil.which("python3") or own
    if found is None:
        raise CannotStart("python-not-found", "no Python was found on PATH; name one with --python PATH")
    return found


def _executable(requested: str) -> str:
    found = shutil.which(requested)
    if found is None:
        raise CannotStart(
            "python-not-found", f"--python {requested!r} is neither an executable file nor a command on PATH"
        )
    return found


def _torch_is_here() -> bool:
    """Whether our interpreter could import torch; it is looked up only, importing costs seconds."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # a stray folder named torch has no origin
