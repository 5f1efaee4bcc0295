"""Marks say what happened when: in seconds of the run, joined where a screen could not tell them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.analyse.timeline import MARKS_AT_MOST, marks_of
from bottleneck_doctor.model.instruments import InstrumentWindow, Operation
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable
from bottleneck_doctor.model.picture import Mark
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of

RUN = run_of(workers=2, cpu=0.03, compute=0.01, noise=0.0)  # 300 steps of 20 ms from second 3 on


def marks(profile: Profile, kind: str) -> list[Mark]:
    diagnosis = diagnose(profile)
    steps = steps_of(diagnosis.loop.table) if diagnosis.loop is not None else []
    return [mark for mark in marks_of(diagnosis, steps) if mark.kind == kind]


def step_s(profile: Profile) -> float:
    return profile.loops[0].table.wall_s[0]


def test_the_warm_up_lasts_as_many_steps_as_were_set_aside() -> None:
    (mark,) = marks(RUN, "warm-up")
    steps = diagnose(RUN).quality.warmup_steps
    assert (mark.begin_s, mark.end_s) == pytest.approx((3.0, 3.0 + steps * step_s(RUN)))


def test_phases_follow_the_warm_up_and_each_other() -> None:
    profile = run_of(workers=2, cpu=0.03, compute=0.01, noise=0.01, steps=600, epochs=1)
    table = profile.loops[0].table
    late = sum(table.wall_s[300:])
    for place in range(300, 600):  # the second half waits for nothing, and is slow for another reason
        table.wall_s[place] *= 4
        table.wait_s[place], table.cpu_s[place] = 0.0, table.wall_s[place]
        table.t[place] = table.t[299] + sum(table.wall_s[300 : place + 1])
    assert late
    found = marks(profile, "phase")
    assert len(found) == 2
    assert found[0].begin_s == pytest.approx(marks(profile, "warm-up")[0].end_s, abs=0.1)
    assert found[0].end_s == pytest.approx(table.t[299], rel=0.05)
    assert found[1].end_s == pytest.approx(table.t[599])
    assert found[1].label.startswith("steady: ")


def evaluated(begins: list[float], length: float) -> Profile:
    """The run with an evaluation loop on the same process, one row for each pass."""
    rows = len(begins)
    columns = {name: [0.0] * rows for name in StepTable.__dataclass_fields__ if name.endswith("_s")}
    table = StepTable(
        t=[begin + length for begin in begins], steps=[5] * rows, epoch=list(range(rows)),
        ready=[None] * rows, set_aside=[""] * rows, **{**columns, "wall_s": [length] * rows},  # type: ignore[arg-type]
    )  # fmt: skip
    epochs = Epochs(begins, [0.01] * rows, [0.01] * rows, [6] * rows)
    loop = Loop("1:2", 1, 0, "evaluation", 6 * rows, length * rows, 0.0, epochs, table)
    return replace(RUN, loops=[*RUN.loops, loop])


def test_each_evaluation_is_marked_from_its_begin_to_its_last_batch() -> None:
    found = marks(evaluated([4.0, 6.0], 0.5), "evaluation")
    assert [(mark.begin_s, mark.end_s) for mark in found] == [(4.0, 4.5), (6.0, 6.5)]


def test_marks_closer_than_a_pixel_are_one() -> None:
    (mark,) = marks(evaluated([4.0, 4.5005, 5.001], 0.5), "evaluation")
    assert (mark.begin_s, mark.end_s) == pytest.approx((4.0, 5.501))


def saved(events: list[tuple[float, float]], thread: int = 0) -> Profile:
    whole = sum(length for _, length in events)
    return replace(
        RUN, operations=[Operation("checkpoint", 1, thread, "save", 9, whole, 0.0, 1.0, events=events)]
    )


def test_checkpoints_of_the_loops_own_thread_are_marked() -> None:
    assert [(mark.begin_s, mark.end_s) for mark in marks(saved([(4.0, 0.5), (7.0, 0.25)]), "checkpoint")] == [
        (4.0, 4.5),
        (7.0, 7.25),
    ]
    assert marks(saved([(4.0, 0.5)], thread=3), "checkpoint") == []


def test_of_very_many_marks_the_longest_stay() -> None:
    events = [(3.0 + 0.02 * place, 1e-4 * (1 + place)) for place in range(300)]
    run = replace(saved(events), run=replace(RUN.run, duration_s=9.0))
    found = marks(run, "checkpoint")
    assert len(found) <= MARKS_AT_MOST
    assert found == sorted(found, key=lambda mark: mark.begin_s)
    assert found[-1].end_s == pytest.approx(3.0 + 0.02 * 299 + 0.03)


def test_the_windows_of_instruments_are_marked_with_their_names() -> None:
    run = replace(RUN, windows=[InstrumentWindow("py-spy", 5.0, 6.0)])
    assert marks(run, "instrument") == [Mark("instrument", 5.0, 6.0, "py-spy")]
