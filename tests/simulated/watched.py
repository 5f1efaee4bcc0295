"""Runs a simulated training by itself or under bdoc, and reads what is true and what bdoc says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
# The profiler's window opens after three seconds; a test has no time to wait for it.
BDOC = """
from bottleneck_doctor.commands.app import main
from bottleneck_doctor.sense import windows
windows.WARMUP_S = 1.0
main()
"""


@dataclass(frozen=True)
class Seen:
    """What is true by construction, what bdoc reported of it, and the training's output."""

    truth: dict[str, float]
    report: dict[str, Any]
    stdout: str

    @property
    def exposed(self) -> float | None:
        """The exposed data wait by the report."""
        value: float | None = self.report["metrics"]["exposed_data_wait_fraction"]["value"]
        return value

    @property
    def first(self) -> str:
        """The first remedy that promises anything."""
        good = [one["id"] for one in self.report["remedies"] if one["predicted_speedup"]["likely"] > 1.05]
        return str(good[0]) if good else ""


def plain(name: str, folder: Path, *options: str) -> dict[str, float]:
    """The truth about a run without bdoc."""
    truth = folder / "truth-plain.json"
    _execute([sys.executable, *_training(name, truth), *options])
    found: dict[str, float] = json.loads(truth.read_text())
    return found


def watched(name: str, folder: Path, *options: str) -> Seen:
    """A run under bdoc."""
    truth, profile = folder / "truth.json", folder / "profile.json"
    bdoc = [sys.executable, "-c", BDOC]
    how = ["run", "--quiet", "--no-py-spy", "-o", str(profile)]
    stdout = _execute([*bdoc, *how, *_training(name, truth), *options])
    report = _execute([*bdoc, "report", str(profile), "--format", "json"])
    return Seen(json.loads(truth.read_text()), json.loads(report), stdout)


def _training(name: str, truth: Path) -> list[str]:
    return ["-m", f"tests.simulated.trainings.{name}", "--truth", str(truth)]


def _execute(command: list[str]) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
