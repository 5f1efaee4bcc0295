"""Devices of each rank, the drivers' devices, and how steps become tables. All devices are simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.computing import hold_up
from bottleneck_doctor.assemble.device import DOUBT, HIDDEN, plain, read_drivers, settle
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.assemble.steps import flag, read_marks, thin
from bottleneck_doctor.assemble.stretches import Sums
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.computing import DispatchBreakdown
from bottleneck_doctor.model.device import DeviceFacts
from bottleneck_doctor.model.instruments import InstrumentWindow, Operator, Sample
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Gap, Machine, Process, Run
from tests.assemble import device_rows
from tests.assemble.device_rows import MS, SECOND, Habits, profile_of, train, writer
from tests.assemble.logs import MS as MS_STEPS
from tests.assemble.logs import log, row

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
    odd = {"index": "x", "capability": [1], "memory_bytes": -5, "uuid": None}
    train(tmp_path, READBACK, steps=20, **odd)
    facts = device_of(profile_of(tmp_path))
    assert (facts.index, facts.capability, facts.memory_bytes) == (0, None, None)


def test_devices_survive_being_written_and_read(tmp_path: Path) -> None:
    train(tmp_path, READBACK, steps=40)
    profile = profile_of(tmp_path)
    assert decode_profile(encode_profile(profile)) == profile


BARE = "f6dd2ecc-5e3c-1f4e-9a43-0a4ab0b2c7d1"
TWO = {"gpu0_name": "H100", "gpu0_uuid": "GPU-AA", "gpu1_name": "H100", "gpu1_uuid": "GPU-bb"}
CUT = {"gpu0_name": "1g", "gpu0_uuid": "MIG-51", "gpu0_whole_uuid": "GPU-aa"}
BOTH = {**CUT, "gpu1_name": "1g", "gpu1_uuid": "MIG-52", "gpu1_whole_uuid": "GPU-aa"}


@pytest.mark.parametrize("text", [BARE, f"GPU-{BARE}", f"MIG-{BARE}", f"MIG-GPU-{BARE}", BARE.upper()])
def test_every_spelling_of_one_device_is_the_same(text: str) -> None:
    assert plain(text) == BARE.replace("-", "")


@pytest.mark.parametrize(
    ("static", "uuid", "index", "place"),
    [
        (TWO, "bb", 0, 1),  # the rank's own CUDA_VISIBLE_DEVICES leaves it one device, its cuda:0
        (TWO, "GPU-aa", 0, 0),
        (TWO, "cc", 0, None),  # hidden from bdoc
        (TWO, "", 1, 1),
        ({"gpu0_name": "H100"}, "bb", 0, 0),
        (CUT, "51", 0, 0),
        (CUT, "aa", 0, 0),  # torch may say a slice's name or its GPU's
        (BOTH, "52", 0, 1),
        (BOTH, "aa", 0, None),  # which of the two slices?
    ],
)
def test_names_are_believed_before_numbers(
    static: dict[str, str], uuid: str, index: int, place: int | None
) -> None:
    samples = [Sample(0, "gpu_static", static), Sample(1, "gpu", {"gpu0_busy_share": 0.5})]
    assert read_drivers(samples, []).find("cuda", uuid, index) == place


DOUBTED = [Gap(DOUBT, "numbers"), Gap("disk counters", "none")]


@pytest.mark.parametrize(
    ("device", "uuid", "driver", "left"),
    [
        ("cuda", "aa", 0, DOUBTED[1:]),
        ("cuda", "", 0, DOUBTED),
        ("cuda", "cc", None, [DOUBTED[1], HIDDEN]),
        ("cpu", None, None, DOUBTED[1:]),
        ("cuda", None, None, DOUBTED),  # its device could not be asked
    ],
)
def test_names_settle_the_doubt_about_numbers(
    device: str, uuid: str | None, driver: int | None, left: list[Gap]
) -> None:
    drivers = read_drivers([Sample(0, "gpu_static", TWO)], [])
    devices = [] if uuid is None else [DeviceFacts(uuid=uuid, driver=driver)]
    assert settle(DOUBTED, drivers, devices, [Process(1, 0, "trainer", 0.0, device=device)]) == left


SUMMED = (
    "steps wall_s wait_s cpu_s wait_cpu_s process_cpu_s backward_s optimizer_s checkpoint_s logging_s "
    "collect_s copy_s"
).split()


def table(rows: int) -> StepTable:
    made = StepTable()
    for place in range(rows):
        for name in SUMMED:
            getattr(made, name).append(place + 1)
        made.t.append(float(place))
        made.epoch.append(place // 10)
        made.runq_s.append(None if place % 2 else 1.0)
        made.ready.append(place)
        made.set_aside.append("")
    return made


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 1000])
def test_a_thinned_table_is_short_and_its_sums_are_exact(rows: int) -> None:
    before, after = table(rows), thin(table(rows), 64)
    assert len(after.t) <= 64
    for name in SUMMED:
        assert len(getattr(after, name)) == len(after.t)
        assert sum(getattr(after, name)) == sum(getattr(before, name))
    assert after.t[-1:] == before.t[-1:], "a row ends where its last step ended"


def test_what_is_known_of_half_a_pair_is_kept() -> None:
    assert thin(table(128), 64).runq_s == [1.0] * 64


def test_sums_between_two_instants() -> None:
    found = Sums([(30, 3), (10, 1), (20, 2)])
    assert [found.between(0, 100), found.between(10, 20), found.between(11, 30), found.between(40, 50)] == [
        6,
        1,
        2,
        0,
    ]


def test_steps_under_an_instrument_are_set_aside() -> None:
    made = table(4)
    made.wall_s[:] = [1.0, 1.0, 1.0, 1.0]
    flag(made, [(1.2, 1.4)], "instrument")
    assert made.set_aside == ["", "", "instrument", ""]


@pytest.mark.parametrize(("passes", "expected"), [([], 20), ([(12, 5)], 13), ([(11, 2), (14, 8)], 8)])
def test_a_closure_that_runs_the_model_is_no_part_of_the_optimizer(
    passes: list[tuple[float, float]], expected: int
) -> None:
    rows = [row(wire.OPTIMIZER, 10, 20.0), *(row(wire.BACKWARD, t, taken, 0) for t, taken in passes)]
    assert read_marks(log(rows), 0).optimizer.between(0, 10**12) == expected * MS_STEPS


TABLE = StepTable(t=[1.0, 2.0], steps=[50, 50], wall_s=[0.6, 0.6], wait_s=[0.1, 0.1])
LOOP = Loop("1:1", 1, 0, "train", 100, 1.2, 0.2, Epochs(), TABLE, backwards=100)
WINDOW = DispatchBreakdown(1, 40, 0.01, 0.01, 0.008, 0.007, 0.006, 0.002, 0.001, backwards=1)
OPERATORS = {1: [Operator("aten::mm", 6.0, 0.006)]}


def test_a_training_step_is_taken_as_it_is() -> None:
    assert hold_up([WINDOW], OPERATORS, [LOOP], []) == ([WINDOW], OPERATORS[1], [])


def test_a_window_without_a_backward_pass_is_no_training_step() -> None:
    anatomies, operators, gaps = hold_up([replace(WINDOW, backwards=0)], OPERATORS, [LOOP], [])
    assert (anatomies, operators) == ([], [])
    assert [one.what for one in gaps] == ["one profiled step"]


def test_it_is_all_there_is_where_nothing_is_trained() -> None:
    window = replace(WINDOW, backwards=0)
    inference = replace(LOOP, role="evaluation", backwards=0)
    assert hold_up([window], OPERATORS, [inference], []) == ([window], OPERATORS[1], [])


def test_another_process_that_only_tests_is_not_shown() -> None:
    parent = replace(WINDOW, pid=2, backwards=0)
    tables = {**OPERATORS, 2: [Operator("aten::mm", 900.0, 9.0)]}
    anatomies, operators, _ = hold_up([WINDOW, parent], tables, [LOOP], [])
    assert anatomies == [WINDOW]
    assert operators == OPERATORS[1]


def test_a_window_much_shorter_than_a_step_is_none() -> None:
    anatomies, operators, gaps = hold_up([replace(WINDOW, wall_s=0.001)], OPERATORS, [LOOP], [])
    assert (anatomies, operators, len(gaps)) == ([], [], 1)


def test_batches_that_were_fetched_ahead_are_counted() -> None:
    """Two micro-batches are fetched, and then computed: the window of one arrival saw both."""
    (anatomy,), (operator,), gaps = hold_up([replace(WINDOW, backwards=2, batches=2)], OPERATORS, [LOOP], [])
    assert (anatomy.operators, anatomy.cpu_s) == (20, 0.005)
    assert (operator.calls, operator.self_cpu_s) == (3.0, 0.003)
    assert gaps == []
