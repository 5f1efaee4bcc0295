"""What the quick starts tell people to do: the script to save, the command to type, the run quoted."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.run import BDOC, ROOT, execute

PATIENCE_S = 200.0
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


def type_in(start: QuickStart, folder: Path, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run the page's command, with more options of bdoc's before the script if wished."""
    shutil.copyfile(start.script, folder / "train.py")
    bdoc, run, *line = start.command
    assert (bdoc, run) == ("bdoc", "run"), start.command
    command = [*BDOC, run, *options, *line]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return execute(command, cwd=folder, limit_s=PATIENCE_S, PATH=path, PYTHONPATH=str(ROOT))
