"""What is read of each rank's device: whose looks count, and for how many steps. All are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.device import DeviceFacts
from bottleneck_doctor.model.instruments import InstrumentWindow, Sample
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.assemble import device_rows
from tests.assemble.device_rows import MS, SECOND, Habits, profile_of, train, writer

READBACK = Habits(issue=2.0, device=6.0, after=1.0)


def device_of(profile: Profile) -> DeviceFacts:
    assert profile.device is not None
    return profile.device


def test_every_step_is_stood_for_by_a_look(tmp_path: Path) -> None:
    train(tmp_path, Habits(), steps=200, every=4)
    table = device_of(profile_of(tmp_path)).table
    assert sum(table.looks) < 100
    assert sum(table.steps) == pytest.approx(200, abs=4)


def test_what_building_an_iterator_took_is_the_first_batchs_wait(tmp_path: Path) -> None:
    """Nothing was queued: the device waited for it, too."""
    train(tmp_path, Habits(fetch=3.0), steps=30, built=500 * MS)
    table = device_of(profile_of(tmp_path)).table
    assert table.wait_s[0] == pytest.approx(0.503)
    assert table.wall_s[0] - table.wait_s[0] < 0.02


def test_looks_beside_an_instrument_are_left_out(tmp_path: Path) -> None:
    train(tmp_path, Habits(), steps=100)
    whole = device_of(profile_of(tmp_path)).table
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 60.0, 0)
    half = InstrumentWindow("py-spy", 0.0, whole.t[49])
    left = assemble(Remains(tmp_path, run, Machine("box", "6", "cpu", 8, 8.0), 0, windows=[half]))
    assert len(device_of(left).table.t) == 50


def test_a_long_run_keeps_its_sums(tmp_path: Path) -> None:
    train(tmp_path, Habits(), steps=1500)
    table = device_of(profile_of(tmp_path)).table
    assert len(table.t) <= 512
    assert (sum(table.steps), sum(table.looks)) == (1500, 1500)
    assert sum(table.host_s) == pytest.approx(table.t[-1] - 1.0, rel=0.01)


def test_an_evaluations_looks_do_not_count(tmp_path: Path) -> None:
    """Its loader is another, and no backward pass follows on its batches."""
    training = train(tmp_path, Habits(), steps=50)
    training.file.fact(fact="loader", thing=2, dataset="Others", file="train.py", line=9)
    training.file.row(wire.EPOCH, training.now + 1, 500, 2, thing=2)
    for place in range(1, 20):
        t = training.now + place * MS
        training.file.row(wire.NEXT, t, 1000, place, 0, place * 1000, training.passes, training.passes, 2)
        training.file.row(wire.CLOCKS, t, 2, t, t, 0, wire.NOTHING, 0, 2)
        training.file.row(wire.DEVICE_STEP, t, MS, 900_000, MS, 0, 1, 0, 2)
    facts = device_of(profile_of(tmp_path))
    assert (sum(facts.table.looks), facts.loader) == (50, "100:1")


def test_steps_of_a_loop_without_a_loader_are_its_optimizers(tmp_path: Path) -> None:
    file = writer(tmp_path, 100)
    file.fact(fact="device", kind="cuda", index=0, name="Simulated", uuid="")
    for step in range(1, 41):
        t = SECOND + step * 10 * MS
        file.row(wire.FORWARD, t, 2 * MS, step, 0, 0, t, 0)
        file.row(wire.DEVICE_STEP, t + 1000, 10 * MS - 1000, MS, 9 * MS, 0, 0, 1)
    facts = device_of(profile_of(tmp_path))
    assert (facts.loader, sum(facts.table.steps)) == ("", 39)
    assert facts.table.host_wait_s[0] == pytest.approx(0.002)


def test_copies_and_waits_are_means_per_step_by_line(tmp_path: Path) -> None:
    train(tmp_path, Habits(copy=2.0, after=1.0), steps=60)
    facts = device_of(profile_of(tmp_path))
    assert facts.copies is not None
    copy = facts.copies[0]
    assert (copy.bytes, copy.count, copy.pinned, copy.blocking, copy.dtype) == (
        4e7,
        1.0,
        False,
        True,
        "float32",
    )
    assert (copy.file, copy.line, copy.host_s) == ("train.py", 31, pytest.approx(0.002, rel=0.05))
    assert facts.syncs is None, "what follows on a wait is known from a window only"


def test_a_line_that_makes_what_it_copies_is_told_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = [1 << wire.COPY_BITS.index(name) for name in ("blocking", "just made")]
    monkeypatch.setattr(device_rows, "BLOCKING", sum(bits))
    train(tmp_path, Habits(copy=2.0), steps=60)
    (copy,) = device_of(profile_of(tmp_path)).copies or []
    assert (copy.blocking, copy.made, copy.side_stream) == (True, True, False)


def test_steps_in_which_nobody_listened_say_nothing_of_copies(tmp_path: Path) -> None:
    training = train(tmp_path, Habits(), steps=10)
    training.file.row(wire.DEVICE_STEP, training.now, MS, 0, MS, wire.NOTHING, 0, 0, 1)
    training.file.row(wire.NEXT, training.now + 10, 1000, 11, 0, 11_000, 11, 11, 1)
    training.file.row(wire.CLOCKS, training.now + 10, 1, 0, 0, 0, wire.NOTHING, 0, 1)
    training.file.row(wire.BACKWARD, training.now + MS, 5)
    table = device_of(profile_of(tmp_path)).table
    assert (sum(table.steps), sum(table.heard)) == (11, 10)


def test_the_allocators_counters_are_those_of_the_steady_steps(tmp_path: Path) -> None:
    training = train(tmp_path, Habits(), steps=100)
    end = training.now
    for t, requests in ((SECOND, 0), (SECOND + (end - SECOND) // 2, 500), (end - 1, 550)):
        training.file.row(wire.ALLOCATOR, t, 0, 0, requests, 7, 5 << 30, 6 << 30)
    allocator = device_of(profile_of(tmp_path)).allocator
    assert allocator is not None
    assert (allocator.device_allocs, allocator.empty_cache_calls) == (50, 0)
    assert 45 <= allocator.steps <= 55
    assert allocator.reserved_bytes == 6 << 30


def test_where_emptying_the_cache_is_not_counted_the_steps_listened_to_say_how_often(tmp_path: Path) -> None:
    training = train(tmp_path, Habits(), steps=100)
    (log,) = read_logs(tmp_path)
    for step in log.of(wire.DEVICE_STEP)[::2]:
        training.file.row(wire.DEVICE_WAIT, step.t + 1, 1000, 1000, wire.WAITS.index("empty_cache"))
    for t in ((SECOND + training.now) // 2, training.now - 1):
        training.file.row(wire.ALLOCATOR, t, 0, 0, 0, wire.NOTHING, 5 << 30, 6 << 30)
    allocator = device_of(profile_of(tmp_path)).allocator
    assert allocator is not None
    assert allocator.empty_cache_calls / allocator.steps == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("nvml", "uuid", "index", "found"),
    [
        ({"gpu0_uuid": "GPU-AAAA-1", "gpu1_uuid": "GPU-5CA1AB1E-0000"}, "5ca1ab1e-0000", 0, 1),
        ({"gpu0_uuid": "GPU-AAAA-1"}, "5ca1ab1e-0000", 0, None),  # not one of those that the driver shows
        ({}, "5ca1ab1e-0000", 2, 2),
        ({"gpu0_uuid": "GPU-AAAA-1"}, "", 0, 0),
    ],
)
def test_the_drivers_gpu_is_found_by_its_name(
    tmp_path: Path, nvml: dict[str, float | str], uuid: str, index: int, found: int | None
) -> None:
    train(tmp_path, Habits(), steps=20, uuid=uuid, index=index)
    assert device_of(profile_of(tmp_path, [Sample(1, "gpu_static", nvml)])).driver == found


def test_ranks_that_each_see_one_device_do_not_share_the_drivers_first(tmp_path: Path) -> None:
    """With CUDA_VISIBLE_DEVICES of their own, all of them use torch's device 0."""
    for rank, uuid in enumerate(("", "bbbb-2")):
        train(tmp_path, Habits(), steps=30 + rank, pid=100 + rank, uuid=uuid)
    profile = profile_of(
        tmp_path, [Sample(1, "gpu_static", {"gpu0_uuid": "GPU-AAAA-1", "gpu1_uuid": "GPU-BBBB-2"})]
    )
    main, other = device_of(profile), profile.other_devices[0]
    assert ((main.pid, main.driver), (other.pid, other.driver)) == ((101, 1), (100, None))


@pytest.mark.parametrize(
    ("fact", "kind"), [({}, "cuda"), ({"device": "xpu"}, "xpu"), ({"device": "cpu"}, "cuda")]
)
def test_the_parameters_say_what_computes(tmp_path: Path, fact: dict[str, str], kind: str) -> None:
    training = train(tmp_path, Habits(), steps=20)
    training.file.fact(fact="optimizer", name="SGD", **fact)
    assert [one.device for one in profile_of(tmp_path).processes] == [kind]


def test_a_device_that_refused_says_why(tmp_path: Path) -> None:
    training = train(tmp_path, Habits(), steps=0)
    training.file.fact(fact="device_silent", why="RuntimeError: no events")
    assert device_of(profile_of(tmp_path)).silent == "RuntimeError: no events"


def test_hostile_facts_are_no_error(tmp_path: Path) -> None:
    odd = {"index": "x", "capability": [1], "memory_bytes": -5, "uuid": None, "multiprocessors": True}
    train(tmp_path, READBACK, steps=20, **odd)
    facts = device_of(profile_of(tmp_path))
    assert (facts.index, facts.capability, facts.memory_bytes, facts.multiprocessors) == (0, None, None, None)


def test_devices_survive_being_written_and_read(tmp_path: Path) -> None:
    train(tmp_path, READBACK, steps=40)
    profile = profile_of(tmp_path)
    assert decode_profile(encode_profile(profile)) == profile
