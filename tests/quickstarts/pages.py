"""What the quick starts tell people to do: the script to save, the command to type, the run quoted."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.house.source import ROOT

FOLDER = ROOT / "docs" / "quickstart"
SCRIPT = re.compile(r"<!-- script: (\S+) -->")
REPORT = re.compile(r"<!-- report: ([\w-]+)")
COMMAND = re.compile(r"^\$ (bdoc run .+)$", re.MULTILINE)


@dataclass(frozen=True)
class QuickStart:
    """One page. ``name`` is that of the recorded run, ``command`` what is typed beside the script."""

    page: str
    script: Path
    name: str
    command: tuple[str, ...]


def quick_starts() -> list[QuickStart]:
    """Every page of the folder, by its name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.md"))]


def _read(path: Path) -> QuickStart:
    text = path.read_text(encoding="utf-8")
    found = [pattern.search(text) for pattern in (SCRIPT, REPORT, COMMAND)]
    assert all(found), f"{path.name} lacks a script, a report or a command `$ bdoc run ...`"
    script, name, command = (one[1] for one in found if one)
    return QuickStart(path.stem, ROOT / script, name, tuple(shlex.split(command)))
