"""Does what a quick start tells: its script as train.py in an empty folder, and its command there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.house.source import ROOT
from tests.quickstarts.pages import QuickStart

PATIENCE_S = 200.0


def type_in(start: QuickStart, folder: Path, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run the page's command, with more options of bdoc's before the script if wished."""
    shutil.copyfile(start.script, folder / "train.py")
    bdoc, run, *line = start.command
    assert (bdoc, run) == ("bdoc", "run"), start.command
    command = [sys.executable, "-m", "bottleneck_doctor", run, *options, *line]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
