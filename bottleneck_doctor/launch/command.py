"""Turns what stands after ``bdoc run`` into the command to start, or says why it cannot be one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

USAGE = 2

Kind = Literal["script", "module", "launcher"]


@dataclass(frozen=True)
class Command:
    """What to start. ``script`` is the path or module name as typed; a launcher keeps its own secret."""

    argv: tuple[str, ...]
    script: str | None
    kind: Kind


class CannotStart(Exception):
    """The training was not started: which message this is, what to say, and the status to leave with."""

    def __init__(self, slug: str, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.slug = slug
        self.status = status


def plan(
    script: str | None, module: str | None, launcher: Sequence[str] | None, args: Sequence[str], python: str
) -> Command:
    """The command for exactly one of the three forms; ``args`` go through untouched.

    The script is looked at, never read: a syntax error or a strange encoding is Python's to report.
    """
    assert sum(form is not None for form in (script, module, launcher)) <= 1, "one form at a time"
    if launcher is not None:
        return _launcher([*launcher, *args])
    if module is not None:
        return _module(module, args, python)
    if script is not None:
        return _script(script, args, python)
    raise CannotStart("nothing-to-run", "nothing to run: give a script, '-m MODULE' or '-- COMMAND'")


def _script(script: str, args: Sequence[str], python: str) -> Command:
    if script != "-":  # as for Python itself, "-" reads the script from stdin
        _must_be_runnable(script)
    return Command((python, script, *args), script, "script")


def _module(module: str, args: Sequence[str], python: str) -> Command:
    if not module or module.startswith("-"):
        raise CannotStart("module-name-missing", f"-m needs the name of a module, got {module!r}")
    return Command((python, "-m", module, *args), module, "module")


def _launcher(argv: Sequence[str]) -> Command:
    if not argv or not argv[0]:
        raise CannotStart("launcher-missing", "nothing to run: '--' must be followed by a command")
    name = argv[0]
    if shutil.which(name) is None:
        where = "is not an executable file" if os.sep in name else "was not found on PATH"
        message = f"cannot run {name!r}: it {where}; check the spelling or give its path"
        raise CannotStart("launcher-not-found", message)
    return Command(tuple(argv), None, "launcher")


def _must_be_runnable(script: str) -> None:
    if not os.path.exists(script):
        advice = (
            f"a command follows '--': bdoc run -- {script} ..." if shutil.which(script) else "check the path"
        )
        message = f"script {script!r} does not exist, seen from {os.getcwd()!r}; {advice}"
        raise CannotStart("script-not-found", message)
    if os.path.isdir(script) and not os.path.isfile(os.path.join(script, "__main__.py")):
        message = f"script {script!r} is a directory without a __main__.py; name the file to run"
        raise CannotStart("script-is-directory", message)
    if not os.access(script, os.R_OK):
        message = f"script {script!r} cannot be read by this user; check its permissions"
        raise CannotStart("script-unreadable", message)
