"""Runs of a GPU patient: plain, cured, traced, and watched by bdoc; each with what the script says itself."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.run import BDOC, LIMIT_S, Failed, execute, ours_first, report_on

NOT_HERE = 77  # as in patients/stage.py


class NotHere(Exception):
    """The patient cannot be sick on this machine; the message says why."""


@dataclass(frozen=True)
class Ward:
    """Where the runs take place: the scripts' common options, and a folder for what they leave."""

    folder: Path
    options: tuple[str, ...] = ()

    def plain(self, script: Path, *more: str) -> tuple[str, dict[str, Any]]:
        """What the script prints, and its truth."""
        return self._told([sys.executable, str(script)], "--truth", more)

    def traced(self, script: Path, *more: str) -> dict[str, Any]:
        """What ran in a few steps, by the script's own profiler."""
        return self._told([sys.executable, str(script)], "--trace", more)[1]

    def watched(
        self, script: Path, *more: str, bdoc_options: Sequence[str] = (), tell: str = "--truth"
    ) -> tuple[str, dict[str, Any], Path]:
        """The same under bdoc: what it prints, its truth, and the profile."""
        profile = self.folder / "profile.json"
        profile.unlink(missing_ok=True)
        run = [*BDOC, "run", "--quiet", *bdoc_options, "-o", str(profile), str(script)]
        return (*self._told(run, tell, more), profile)

    def report(self, profile: Path) -> dict[str, Any]:
        """What bdoc makes of the profile."""
        return report_on(profile)

    def _told(self, command: list[str], tell: str, more: Sequence[str]) -> tuple[str, dict[str, Any]]:
        paper = self.folder / "told.json"
        paper.unlink(missing_ok=True)
        said = output_of([*command, tell, str(paper), *self.options, *more])
        return said, json.loads(paper.read_text())


def output_of(command: Sequence[str]) -> str:
    """Run it in our environment; its stdout."""
    try:
        done = execute(command, limit_s=LIMIT_S, PYTHONPATH=ours_first())
    except subprocess.TimeoutExpired:
        raise Failed(f"took longer than {LIMIT_S:.0f} s") from None
    if done.returncode == 0:
        return done.stdout
    last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    raise (NotHere if done.returncode == NOT_HERE else Failed)(last)
