"""Reads an ordinary command line of ``bdoc run`` without typer, whose import takes longer than all of ours.

What is not plainly right is left to typer: it knows how to say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .run_options import RunOptions, checked

FLAGS = (
    "--quiet", "--no-profiler", "--no-py-spy", "--cprofile", "--keep-trace", "--calibrate", "--no-calibrate",
    "--until-steady", "--no-paths",
)  # fmt: skip
TEXTS = ("--output", "--format", "--python", "--prove", "--trial", "--place")
LISTS = ("--max-data-wait", "--fail-if", "--data-fn")
NUMBERS: dict[str, tuple[type, str]] = {
    "--max-steps": (int, r"\d{1,9}"),
    "--max-seconds": (float, r"\d{1,9}(\.\d{1,9})?"),
}
SHORT = {"-q": "--quiet", "-o": "--output"}


def quickly(arguments: list[str]) -> RunOptions | None:
    """The options of this command line, or None where typer is to read it."""
    if arguments[:1] != ["run"]:
        return None
    given: dict[str, Any] = {}
    words = iter(arguments[1:])
    for word in words:
        if word in ("-", "--") or not word.startswith("-"):
            target = list(words) if word == "--" else [word, *words]
            return checked(target, word == "--", **given) if target else None
        if word == "-m":
            given["module"] = True
        elif not _take(SHORT.get(word, word), words, given):
            return None
    return None


def _take(word: str, words: Iterator[str], given: dict[str, Any]) -> bool:
    """Note one option, with its value from ``words`` where it has one; False: typer is to see to it."""
    option, equals, value = word.partition("=")
    name = option[2:].replace("-", "_")
    if option in FLAGS and not equals:
        given[name] = True
        return True
    if not equals:
        value = next(words, "-")
        if value.startswith("-"):
            return False
    if option in TEXTS:
        given[name] = value
    elif option in LISTS:
        given.setdefault(name, []).append(value)
    elif option in NUMBERS and re.fullmatch(NUMBERS[option][1], value, re.ASCII):
        given[name] = NUMBERS[option][0](value)
    else:
        return False
    return True
