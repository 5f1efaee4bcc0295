"""Does what a quick start tells: its script as train.py in an empty folder, and its command there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab.run import BDOC, ROOT, execute
from tests.quickstarts.pages import QuickStart

PATIENCE_S = 200.0


def type_in(start: QuickStart, folder: Path, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run the page's command, with more options of bdoc's before the script if wished."""
    shutil.copyfile(start.script, folder / "train.py")
    bdoc, run, *line = start.command
    assert (bdoc, run) == ("bdoc", "run"), start.command
    command = [*BDOC, run, *options, *line]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return execute(command, cwd=folder, limit_s=PATIENCE_S, PATH=path, PYTHONPATH=str(ROOT))
