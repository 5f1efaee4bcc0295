"""Levels and drift of step times; marks, and the pace of a run that goes on."""

import random
from collections.abc import Callable
from itertools import accumulate

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose, is_stalled, pace
from bottleneck_doctor.analyse.steady import cuts_of, find_cut
from bottleneck_doctor.analyse.steady import steps_of as steps_of_marks
from bottleneck_doctor.analyse.timeline import marks_of
from bottleneck_doctor.model.diagnosis import Step
from bottleneck_doctor.model.picture import Mark
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Progress
from tests.analyse.runs import run_of

MS = 1e-3


def steps_of(walls: list[float]) -> list[Step]:
    """Steps of these wall times."""
    ends = accumulate(walls)
    return [Step(t, 1, wall, *[0.0] * 7, wall, *[None] * 4) for t, wall in zip(ends, walls, strict=True)]


def at_first(row: int) -> Callable[[int], bool]:
    """Whether a cut is near the end of the run's beginning."""
    return lambda cut: abs(cut - row) <= 3


def noisy(level: float, count: int, chance: random.Random) -> list[float]:
    """So many steps around a level, now and then one that takes three times as long."""
    return [
        level * (1 + chance.uniform(-0.1, 0.1)) * (3 if chance.random() < 0.02 else 1) for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("before", "after", "at"), [(20 * MS, 10 * MS, 30), (10 * MS, 15 * MS, 150), (10 * MS, 15 * MS, 270)]
)
def test_a_change_of_level_is_found_where_it_is(seed: int, before: float, after: float, at: int) -> None:
    chance = random.Random(seed)
    cut = find_cut(steps_of(noisy(before, at, chance) + noisy(after, 300 - at, chance)))
    assert cut == pytest.approx(at, abs=4)


def healthy(kind: str, chance: random.Random) -> list[float]:
    """Runs that change in many ways, and yet are all of one level."""
    count = 400
    plain = noisy(10 * MS, count, chance)
    if kind == "one stall":
        plain[count // 3] = 8.0
    elif kind == "short and long by turns":
        plain = [wall * (1 if place % 2 else 3) for place, wall in enumerate(plain)]
    elif kind == "short and long at random":
        plain = [wall * chance.choice((1, 3)) for wall in plain]
    elif kind == "heavy tail":
        plain = [wall * chance.paretovariate(2.5) for wall in plain]
    elif kind == "a checkpoint every fifty":
        plain = [wall + (0.3 if place % 50 == 49 else 0.0) for place, wall in enumerate(plain)]
    elif kind == "slower and slower":
        plain = [wall * (1 + 2 * place / count) for place, wall in enumerate(plain)]
    elif kind == "two networks by turns of forty":
        plain = [wall * (1 if place // 40 % 2 else 2) for place, wall in enumerate(plain)]
    return plain


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "kind",
    [
        "noise", "one stall", "short and long by turns", "short and long at random", "heavy tail",
        "a checkpoint every fifty", "slower and slower", "two networks by turns of forty",
    ],
)  # fmt: skip
def test_nothing_else_splits_a_run(kind: str, seed: int) -> None:
    assert cuts_of(steps_of(healthy(kind, random.Random(seed))), at_first(0)) == []


def marks(profile: Profile, kind: str) -> list[Mark]:
    diagnosis = diagnose(profile)
    steps = steps_of_marks(diagnosis.loop.table) if diagnosis.loop is not None else []
    return [mark for mark in marks_of(diagnosis, steps) if mark.kind == kind]


def test_phases_follow_the_warm_up_and_each_other() -> None:
    profile = run_of(workers=2, cpu=0.03, compute=0.01, noise=0.01, steps=600, epochs=1)
    table = profile.loops[0].table
    for place in range(300, 600):  # the second half waits for nothing, and is slow for another reason
        table.wall_s[place] *= 4
        table.wait_s[place], table.cpu_s[place] = 0.0, table.wall_s[place]
        table.t[place] = table.t[299] + sum(table.wall_s[300 : place + 1])
    judged = diagnose(profile)
    assert [phase.label for phase in judged.phases] == ["earlier", "steady"]
    assert judged.phases[0].to_step == judged.phases[1].from_step == pytest.approx(300, abs=12)
    assert judged.verdict.cause == judged.phases[1].verdict.cause
    assert "this holds for steps" in judged.verdict.summary
    assert judged.metrics["data_wait_fraction"].value == 0, "the steady phase waits for nothing"
    first, second = marks(profile, "phase")
    assert first.begin_s == pytest.approx(marks(profile, "warm-up")[0].end_s, abs=0.1)
    assert first.end_s == pytest.approx(table.t[299], rel=0.05)
    assert (second.end_s, second.label) == (pytest.approx(table.t[599]), "steady")


S = 1_000_000_000


def test_the_pace_is_what_happened_between_the_looks() -> None:
    before, after = Progress(1, 100, 100, 5 * S, S, 10 * S), Progress(1, 120, 120, 6 * S, S, 14 * S)
    assert pace([before], [after]) == (0.2, 0.25)


@pytest.mark.parametrize(
    ("silent_s", "step_s", "stalled"),
    [(9, 0.1, False), (11, 0.1, True), (60, 10.0, False), (101, 10.0, True), (11, None, True)],
)
def test_slow_steps_are_no_standstill(silent_s: float, step_s: float | None, stalled: bool) -> None:
    assert is_stalled(silent_s, step_s) is stalled
