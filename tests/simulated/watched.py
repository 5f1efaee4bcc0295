"""Runs a simulated training by itself or under bdoc, and reads what is true and what bdoc says."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.report import Remedy, Report
from tests.agent.torch_server import Answer, server

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}
STRANGERS = ("isolate-cpus", "set-threads")  # remedies against other jobs, which the suite may well have
# A profiler's window opens three seconds after the first batch; a test has no time to wait for it.
SOON = "from bottleneck_doctor.sense import schedule; schedule.PROFILE_AFTER_S = 0.7"


@dataclass(frozen=True)
class Seen:
    """What is true by construction, and what bdoc wrote down and reported of it."""

    truth: dict[str, Any]
    profile: Profile
    report: Report

    def measured(self, metric: str) -> float | None:
        """The value of one of the report's metrics."""
        return self.report.metrics[metric].value

    @property
    def first(self) -> Remedy | None:
        """The best remedy that promises anything and is about the training itself."""
        good = [one for one in self.report.remedies if one.predicted_speedup.reach > 1.05]
        return next((one for one in good if one.id not in STRANGERS), None)


def plain(name: str, folder: Path, *options: str) -> dict[str, Any]:
    """The truth about a run without bdoc."""
    truth = folder / "truth-plain.json"
    _ended_well(server(True).run([*_training(name, truth), *options], ROOT, ENVIRON, PATIENCE_S))
    found: dict[str, Any] = json.loads(truth.read_text())
    return found


def watched(name: str, folder: Path, *options: str) -> Seen:
    """A run under bdoc."""
    truth, file = folder / "truth.json", folder / "profile.json"
    line = ["--quiet", "--no-py-spy", "-o", str(file), *_training(name, truth), *options]
    _ended_well(server(True).watch(line, ROOT, ENVIRON, PATIENCE_S, first=SOON))
    profile = read_profile(file)
    return Seen(json.loads(truth.read_text()), profile, write_up(profile))


def _training(name: str, truth: Path) -> list[str]:
    return ["-m", "tests.simulated.trainings", name, "--truth", str(truth)]


def _ended_well(answer: Answer) -> None:
    status, _, stderr = answer
    assert status == 0, stderr.decode()
