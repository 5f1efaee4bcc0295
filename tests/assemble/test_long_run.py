"""A run of 100,000 steps and 16 workers: profile and picture stay small and are soon there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.lanes import picture_of
from bottleneck_doctor.assemble.profile import assemble
from bottleneck_doctor.model.codec import encode_profile
from bottleneck_doctor.model.diagnosis import Diagnosis
from bottleneck_doctor.model.profile import Profile
from tests.assemble import long_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder = tmp_path_factory.mktemp("long")
    course = long_run.write(folder)
    for file in folder.glob("*.rows"):
        assert file.stat().st_blocks * 512 <= (8 << 20) + 4096
    return assemble(long_run.remains(folder, course))


@pytest.fixture(scope="module")
def diagnosis(profile: Profile) -> Diagnosis:
    return diagnose(profile)


def test_the_profile_is_small_and_no_step_is_lost(profile: Profile) -> None:
    assert len(encode_profile(profile)) < 2 << 20
    assert profile.loops[0].steps == long_run.STEPS
    assert len(profile.processes) == 1 + long_run.WORKERS


def test_the_picture_has_all_curves_and_the_lanes_of_all_workers(diagnosis: Diagnosis) -> None:
    picture = picture_of(diagnosis)
    assert {curve.group for curve in picture.timeline.curves} == {
        "step",
        "wait",
        "cpu",
        "io",
        "pressure",
        "memory",
    }
    assert sum(mark.kind == "evaluation" for mark in picture.timeline.marks) == long_run.EPOCHS
    assert sum(mark.kind == "checkpoint" for mark in picture.timeline.marks) == 100
    assert picture.lanes is not None
    assert picture.lanes.workers == list(range(long_run.WORKERS))
    assert "unseen" not in picture.lanes.pieces.what


def test_the_lanes_are_like_the_run(diagnosis: Diagnosis) -> None:
    lanes = picture_of(diagnosis).lanes
    assert lanes is not None
    assert lanes.wait_share == pytest.approx(diagnosis.metrics["data_wait_fraction"].value, abs=0.1)
    assert (lanes.end_s - lanes.begin_s) / lanes.steps == pytest.approx(diagnosis.step_s, rel=0.25)


def test_drawing_takes_a_small_part_of_judging(profile: Profile, diagnosis: Diagnosis) -> None:
    assert fastest(picture_of, diagnosis) < 0.5 * fastest(diagnose, profile)


def fastest(function: Callable[..., Any], *args: Any) -> float:
    """CPU seconds of the fastest of three calls: other processes have no part in these."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        function(*args)
        found.append(time.process_time() - begin)
    return min(found)
