"""Phases of synthetic runs: which verdicts there are, and which one the report is about."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of

MS = 1e-3
READING = {"storage": 20 * MS, "cpu": 1 * MS, "compute": 4 * MS}
DECODING = {"cpu": 8 * MS, "compute": 2 * MS}
COMPUTING = {"cpu": 1 * MS, "compute": 24 * MS}


def after_another(*parts: tuple[dict[str, Any], int]) -> Profile:
    """One run that goes through several ways of being, each for so many steps."""
    runs = [run_of(steps=steps, epochs=1, **traits) for traits, steps in parts]
    whole, t = runs[0], 3.0
    for run in runs:
        moved, fetched = run.loops[0].table, run.fetches[0]
        moved.t[:] = [t + wall for wall in _sums(moved.wall_s)]
        fetched.t[:] = [end - wall for end, wall in zip(moved.t, moved.wall_s, strict=True)]
        begin, t = t, moved.t[-1]
        run.blocked[0].t[:] = [begin + 0.6, t]
        if run is not whole:
            for mine, its in ((whole.loops[0].table, moved), (whole.blocked[0], run.blocked[0])):
                _extend(mine, its)
            _extend(whole.fetches[0], fetched)
    return whole


def _sums(walls: list[float]) -> list[float]:
    return [sum(walls[: place + 1]) for place in range(len(walls))]


def _extend(mine: object, its: object) -> None:
    for name, column in vars(mine).items():
        if isinstance(column, list):
            column.extend(getattr(its, name))


def test_a_change_in_mid_run_gives_two_phases_and_the_last_is_the_verdict() -> None:
    diagnosis = diagnose(after_another((DECODING, 300), (READING, 300)))
    assert [phase.label for phase in diagnosis.phases] == ["earlier", "steady"]
    assert [phase.verdict.cause for phase in diagnosis.phases] == ["input.preprocess", "input.storage"]
    assert diagnosis.phases[0].to_step == diagnosis.phases[1].from_step == pytest.approx(300, abs=12)
    assert diagnosis.verdict.bound == "io"
    assert "so it was in steps" in diagnosis.verdict.summary
    assert diagnosis.quality.steady_steps == pytest.approx(300, abs=12)


def test_a_short_last_phase_leaves_the_verdict_to_the_longest() -> None:
    diagnosis = diagnose(after_another((READING, 400), (DECODING, 100)))
    assert [phase.label for phase in diagnosis.phases] == ["steady", "later"]
    assert diagnosis.verdict.cause == "input.storage"


def test_the_same_bottleneck_at_two_paces_is_one_phase() -> None:
    slower = {"cpu": 14 * MS, "compute": 3 * MS}
    diagnosis = diagnose(after_another((DECODING, 300), (slower, 300)))
    assert [phase.label for phase in diagnosis.phases] == ["steady"]
    assert diagnosis.quality.steady_steps == 600
    assert "so it was" not in diagnosis.verdict.summary


def test_a_cold_beginning_is_not_what_the_run_suffers_from() -> None:
    diagnosis = diagnose(after_another((READING, 120), (COMPUTING, 20), (DECODING, 380)))
    assert [phase.label for phase in diagnosis.phases] == ["first stretch (cold)", "steady"]
    assert diagnosis.phases[0].verdict.cause == "input.storage"
    assert diagnosis.verdict.cause == "input.preprocess"
    assert "so it was" not in diagnosis.verdict.summary


def test_phases_cover_every_step_that_counts() -> None:
    phases = diagnose(after_another((READING, 120), (DECODING, 300), (COMPUTING, 200))).phases
    assert phases[0].from_step == 0
    assert phases[-1].to_step == 620
    assert all(one.to_step == other.from_step for one, other in pairwise(phases))
