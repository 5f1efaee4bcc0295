"""What the tests of the commands share: a folder of one's own, and reports by the name of their profile."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from bottleneck_doctor.model.codec import encode_profile
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.report import Report
from tests.model.profiles import PROFILE, RUN
from tests.render.reports import HEALTHY, INCONCLUSIVE, TYPICAL

REPORTS = {"typical": TYPICAL, "healthy": HEALTHY, "inconclusive": INCONCLUSIVE}
Store = Callable[..., str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, where no settings are found."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Store:
    """Writes a profile whose report is the one of this name: commands are tested apart from analysis."""

    def write_up(profile: Profile, diagnosis: object = None) -> Report:
        assert profile.run.script is not None
        report = REPORTS[profile.run.script]
        later_s = profile.run.duration_s - RUN.duration_s
        return replace(report, run=replace(report.run, duration_s=report.run.duration_s + later_s))

    monkeypatch.setattr("bottleneck_doctor.findings.report.write_up", write_up)
    numbers = count()

    def _store(name: str, file: str = "profile.json") -> str:
        run = replace(RUN, script=name, duration_s=RUN.duration_s + next(numbers))  # no two are the same run
        (folder / file).write_bytes(encode_profile(replace(PROFILE, run=run)))
        return file

    return _store
