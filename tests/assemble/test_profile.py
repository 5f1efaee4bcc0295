"""The whole profile: bounded for a million steps and 64 processes, and honest about what is missing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.instruments import InstrumentWindow, Sample
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run

MOST_BYTES = 2 << 20
MILLION = 1_000_000
LOOKS = 12_000  # close looks at three loops; a full file of rows holds about that many
WORKERS = 63


def remains(folder: Path | None, samples: list[Sample] | None = None) -> Remains:
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 1.0, 0)
    return Remains(folder, run, Machine("box", "6", "cpu", 2, 2.0), 0, samples or [])


def writer(folder: Path, pid: int) -> EventWriter:
    """A file such as that process would write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        return EventWriter(str(folder))


def long_run(folder: Path) -> None:
    """A million steps of two loaders side by side and an evaluation, seen in part; 63 workers."""
    chance = random.Random(7)
    main = writer(folder, 100)
    for thing in (1, 2, 3):
        main.fact(fact="loader", thing=thing, dataset=f"Data{thing}", file="train.py", line=thing)
        main.row(wire.EPOCH, 1, 1000, thing, thing=thing)
    for worker in range(WORKERS):
        main.row(wire.WORKER, 1, 0, 200 + worker, worker, thing=1 + worker % 3)
    stride, t, wait = MILLION // LOOKS, 10**9, {1: 0, 2: 0, 3: 0}
    for look in range(1, LOOKS + 1):
        passes = look * stride
        for thing in (1, 2, 3):
            t += chance.randrange(10**8)
            took = chance.randrange(10**6)
            wait[thing] += stride * took
            main.row(wire.NEXT, t, took, passes, took // 3, wait[thing], passes, passes, thing)
            main.row(
                wire.CLOCKS, t, thing, int(0.7 * t), int(1.3 * t), int(0.01 * t), 3, 12_000 * look, thing
            )
            if thing == 1:
                main.row(wire.BACKWARD, t + took, chance.randrange(10**6))
            main.row(wire.OPERATION, t + took, chance.randrange(10**7), 10, 0, thing % 2, thing=look % 40)
    for worker in range(WORKERS):
        _worker(writer(folder, 200 + worker), worker, t, chance)


def _worker(file: EventWriter, number: int, end: int, chance: random.Random) -> None:
    file.fact(fact="worker", worker=number, workers=WORKERS)
    for place in range(1, 201):
        t, took = end // 200 * place + chance.randrange(1000), chance.randrange(10**7)
        file.row(wire.FETCH, t, took, took // 2, took // 9, took, chance.randrange(10**6), 0)
        file.row(wire.BATCH, t, took // 5, took // 6, 32, chance.randrange(10**6), took // 50, took // 70)
        file.row(wire.COUNT, t, 0, 80 * place, 3, 4)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder = tmp_path_factory.mktemp("long")
    long_run(folder)
    chance = random.Random(1)
    names = [f"sensor_{number}" for number in range(24)]
    samples = [
        Sample(place * 500_000_000, "machine", {name: place * chance.random() for name in names})
        for place in range(20_000)
    ]
    return assemble(remains(folder, samples))


def test_a_million_steps_of_64_processes_take_less_than_2_mib(profile: Profile) -> None:
    data = encode_profile(profile)
    assert len(data) < MOST_BYTES
    assert decode_profile(data) == profile


def test_no_step_and_no_process_is_lost(profile: Profile) -> None:
    assert len(profile.processes) == 1 + WORKERS
    assert sorted(loop.steps for loop in profile.loops)[-1] > 0.99 * MILLION
    assert all(
        sum(loop.table.steps) == pytest.approx(loop.steps, rel=0.01) for loop in profile.loops if loop.table.t
    )
    assert sum(len(table.t) for table in profile.fetches) > 1000


def test_a_run_that_nobody_saw_says_so(tmp_path: Path) -> None:
    profile = assemble(remains(tmp_path))
    assert [gap.what for gap in profile.gaps] == ["hooks"]
    assert profile.gaps[0].do


def test_a_run_without_a_folder_is_a_profile_too() -> None:
    assert assemble(remains(None)).gaps == []


def test_rows_that_found_no_room_are_a_gap(tmp_path: Path) -> None:
    file = writer(tmp_path, 100)
    file.post(wire.DROPPED, 5)
    (gap,) = assemble(remains(tmp_path)).gaps
    assert "5 rows" in gap.why


def test_the_agents_own_cost_is_per_step_of_the_busiest_process(tmp_path: Path) -> None:
    for pid, steps in ((100, 50), (200, 10)):
        file = writer(tmp_path, pid)
        file.post(wire.STEPS, steps)
        file.post(wire.COST, 1000 * steps * pid)
    assert assemble(remains(tmp_path)).cost.agent_s_per_step == pytest.approx(1e-4)


def test_steps_under_torch_profiler_are_set_aside_and_those_under_py_spy_are_not(tmp_path: Path) -> None:
    file = writer(tmp_path, 100)
    for look in range(1, 6):
        file.row(wire.NEXT, look * 10**9, 1000, look, 10, 1000 * look, look, look, 1)
        file.row(wire.CLOCKS, look * 10**9, 1, 0, 0, 0, 0, 0, 1)
    left = remains(tmp_path)
    left.windows.append(InstrumentWindow("py-spy", 1.2, 2.4))
    left.windows.append(InstrumentWindow("torch.profiler", 3.2, 3.4))
    (loop,) = assemble(left).loops
    assert loop.table.set_aside == ["", "", "instrument", ""]
