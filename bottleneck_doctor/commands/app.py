"""The start of ``bdoc``: obeys a command line, and turns what is refused into one line and a status.

Nothing dear is imported up here: the training that ``bdoc run`` starts waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .output import complain

USAGE = 2
INTERRUPTED = 130
# The file of each command; its function there is called NAME_command.
COMMANDS = {
    "run": "cli",
    "prove": "prove",
    "watch": "running",
    "attach": "running",
    "report": "report",
    "view": "report",
    "check": "profiles",
    "compare": "profiles",
    "merge": "profiles",
    "fleet": "fleet",
    "explain": "reference",
    "env": "reference",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``bdoc`` with these arguments; returns the exit status, never raises for what a user did."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _obey(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as problem:
        slug = getattr(problem, "slug", None)
        if slug is None:
            raise
        complain(f"{problem} [{slug}]")
        return int(getattr(problem, "status", USAGE))


def _obey(arguments: list[str]) -> int:
    from .run_options import quickly

    options = quickly(arguments)
    if options is not None:
        from .run import run_training

        return run_training(options)
    from .cli import GIVEN_UP, WRONG_LINE, obey

    try:
        return obey(arguments, COMMANDS)
    except GIVEN_UP:
        return INTERRUPTED
    except WRONG_LINE as problem:
        complain(_wrong(problem, arguments))
        return USAGE


def _wrong(problem: Any, arguments: list[str]) -> str:
    """One line: what is wrong, and where to read on."""
    text = " ".join(problem.format_message().split()).rstrip(".")
    first = next((word for word in arguments if not word.startswith("-")), "")
    if first not in COMMANDS and first.endswith(".py"):
        return f"no command {first!r}: did you mean `bdoc run {first}`?"
    where = f"bdoc {first} --help" if first in COMMANDS else "bdoc --help"
    return f"{text[:1].lower()}{text[1:]}; see `{where}` [usage]"
