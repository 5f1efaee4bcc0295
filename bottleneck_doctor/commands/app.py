"""The start of ``bdoc``: obeys a command line, and turns what is refused into one line and a status.

Nothing dear is imported up here: the training that ``bdoc run`` starts waits for it.
"""

from __future__ import annotations

import shlex
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


MEASURING = ("run", "prove", "attach", "watch", "env")  # by the kernel's counters
SYSTEMS = {"win32": "Windows", "darwin": "macOS"}
ELSEWHERE = "take a container, WSL2 or another machine; `bdoc report` and `view` show its profiles here"


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
    if not sys.platform.startswith("linux") and arguments and arguments[0] in MEASURING:
        system = SYSTEMS.get(sys.platform, sys.platform)
        complain(f"bdoc {arguments[0]} needs Linux; this is {system}: {ELSEWHERE}")
        return USAGE
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
    if first in ("run", "prove") and (moved := _moved(getattr(problem, "option_name", ""), arguments)):
        return moved
    where = f"bdoc {first} --help" if first in COMMANDS else "bdoc --help"
    return f"{text[:1].lower()}{text[1:]}; see `{where}` [usage]"


def _moved(option: str, arguments: list[str]) -> str:
    """For an option of the script's before it: the line with it behind; "" where it is no such thing."""
    import difflib

    from .run_options import WORDS

    at = next((at for at, word in enumerate(arguments) if word.partition("=")[0] == option), 0)
    end = next((end for end, word in enumerate(arguments) if end > at and word.endswith(".py")), 0)
    if not (at and end) or difflib.get_close_matches(option, WORDS, 1, 0.8):
        return ""
    line = [*arguments[:at], arguments[end], *arguments[at:end], *arguments[end + 1 :]]
    return f"bdoc has no {option}; the script's options stand behind it: bdoc {shlex.join(line)}"
