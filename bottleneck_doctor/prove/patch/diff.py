"""Two texts of one file as a unified diff that `git apply` and `patch` take."""

from __future__ import annotations

import difflib
import os
import re

from .source import Unsafe

CONTEXT = 3  # lines
NOT_OURS = re.compile(r"(^|/)(site-packages|dist-packages)/")
UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f\"\\]")


def relative(file: str, cwd: str) -> str:
    """The file as seen from where the training was started; raises ``Unsafe`` outside of it."""
    name = os.path.relpath(os.path.join(cwd, file), cwd) if cwd else file
    if NOT_OURS.search(file):
        raise Unsafe(f"the place is in an installed library, {os.path.basename(file)}")
    if os.path.isabs(name) or name.split(os.sep)[0] == os.pardir:
        raise Unsafe(f"{file} is not below the working directory, and a patch names its files from there")
    if UNSPEAKABLE.search(name):
        raise Unsafe("the file has a name that a patch cannot say")
    return name


def unified(before: str, after: str, name: str) -> str:
    """The diff, with the line ends of the file; "" where nothing differs."""
    tail = "\t" if " " in name else ""  # so that a name with blanks ends where it ends
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"a/{name}{tail}", f"b/{name}{tail}", n=CONTEXT, lineterm="\n"
    )
    return "".join(map(_ended, lines))


def _lines(text: str) -> list[str]:
    """Cut at line feeds alone, as `patch` does."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
