"""Devices of each rank, the drivers' devices, and how steps become tables. No device is real."""

from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.computing import hold_up
from bottleneck_doctor.assemble.device import HIDDEN, find_hidden, read_drivers
from bottleneck_doctor.assemble.steps import read_marks
from bottleneck_doctor.model.device import DeviceFacts
from bottleneck_doctor.model.instruments import Operator, Sample
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable
from bottleneck_doctor.model.profile import DispatchBreakdown, Profile
from bottleneck_doctor.model.run import Gap
from tests.assemble.device_rows import MS, SECOND, profile_of, train, writer
from tests.assemble.logs import log, row

BITS = {name: 1 << place for place, name in enumerate(wire.COPY_BITS)}


def device_of(profile: Profile) -> DeviceFacts:
    assert profile.device is not None
    return profile.device


def test_a_long_run_keeps_its_sums_and_each_step_is_stood_for_by_a_sampled_one(tmp_path: Path) -> None:
    train(tmp_path, steps=2600, every=4)
    table = device_of(profile_of(tmp_path)).table
    assert len(table.t) <= 512
    assert sum(table.looks) == 20 + (2600 - 20) // 4
    assert sum(table.steps) == pytest.approx(2600, abs=4)
    assert sum(table.host_s) == pytest.approx(26.0, rel=0.01)


def test_what_building_an_iterator_took_is_the_first_batchs_wait(tmp_path: Path) -> None:
    """Nothing was queued: the device waited for it, too."""
    train(tmp_path, built=500 * MS)
    table = device_of(profile_of(tmp_path)).table
    assert (table.wait_s[0], table.wall_s[0]) == pytest.approx((0.503, 0.51))


def test_an_evaluations_looks_do_not_count(tmp_path: Path) -> None:
    """Its loader is another, and no backward pass follows on its batches."""
    training = train(tmp_path, steps=50)
    training.file.fact(fact="loader", thing=2, dataset="Others", file="train.py", line=9)
    training.file.row(wire.EPOCH, training.now + 1, 500, 2, thing=2)
    for place in range(1, 20):
        t = training.now + place * MS
        training.file.row(wire.NEXT, t, 1000, place, 0, place * 1000, training.steps, training.steps, 2)
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


def test_copies_are_means_per_step_by_line_over_the_steps_listened_to(tmp_path: Path) -> None:
    training = train(tmp_path, steps=60, copied=BITS["blocking"] | BITS["just made"])
    training.step(heard=False)
    facts = device_of(profile_of(tmp_path))
    (copy,) = facts.copies or []
    assert (copy.bytes, copy.count, copy.host_s, copy.dtype) == (4e7, 1.0, pytest.approx(0.002), "float32")
    assert (copy.file, copy.line) == ("train.py", 31)
    assert (copy.blocking, copy.made, copy.pinned, copy.side_stream) == (True, True, False, False)
    assert (sum(facts.table.steps), sum(facts.table.heard)) == (61, 60)
    assert facts.syncs is None, "what follows on a wait is known from a window only"


@pytest.mark.parametrize("counted", [True, False])
def test_the_allocators_counters_are_those_of_the_steady_steps(tmp_path: Path, counted: bool) -> None:
    """Where emptying the cache is not counted, the steps listened to say how often that happened. Not in
    each step is the device's clock read."""
    training = train(tmp_path, steps=50)
    for place in range(50):
        training.step(looked=place % 5 == 0)
    for step in range(0, 100, 2):
        t = SECOND + step * 10 * MS
        training.file.row(wire.DEVICE_WAIT, t + 1, 1000, 1000, wire.WAITS.index("empty_cache"))
    for t, requests in ((SECOND, 0), (SECOND + 500 * MS, 500), (training.now - 1, 550)):
        calls = 7 if counted else wire.NOTHING
        training.file.row(wire.ALLOCATOR, t, 0, 0, requests, calls, 5 << 30, 6 << 30)
    allocator = device_of(profile_of(tmp_path)).allocator
    assert allocator is not None
    assert (allocator.device_allocs, allocator.reserved_bytes) == (50, 6 << 30)
    assert 45 <= allocator.steps <= 55
    assert allocator.empty_cache_calls / allocator.steps == pytest.approx(0 if counted else 0.5, rel=0.05)


@pytest.mark.parametrize(
    ("fact", "kind"), [({}, "cuda"), ({"device": "xpu"}, "xpu"), ({"device": "cpu"}, "cuda")]
)
def test_the_parameters_say_what_computes(tmp_path: Path, fact: dict[str, str], kind: str) -> None:
    train(tmp_path, steps=20).file.fact(fact="optimizer", name="SGD", **fact)
    assert [one.device for one in profile_of(tmp_path).processes] == [kind]


def test_a_device_that_refused_says_why_and_odd_facts_of_it_are_no_error(tmp_path: Path) -> None:
    odd = {"index": "x", "capability": [1], "memory_bytes": -5, "uuid": None}
    train(tmp_path, steps=0, **odd).file.fact(fact="device_silent", why="RuntimeError: no events")
    facts = device_of(profile_of(tmp_path))
    assert facts.silent == "RuntimeError: no events"
    assert (facts.index, facts.capability, facts.memory_bytes) == (0, None, None)


TWO = {"gpu0_name": "H100", "gpu0_uuid": "GPU-AA", "gpu1_name": "H100", "gpu1_uuid": "GPU-bb"}
CUT = {"gpu0_name": "1g", "gpu0_uuid": "MIG-51", "gpu0_whole_uuid": "GPU-aa"}
BOTH = {**CUT, "gpu1_name": "1g", "gpu1_uuid": "MIG-52", "gpu1_whole_uuid": "GPU-aa"}


@pytest.mark.parametrize(
    ("static", "uuid", "index", "place"),
    [
        (TWO, "bb", 0, 1),  # the rank's own CUDA_VISIBLE_DEVICES leaves it one device, its cuda:0
        (TWO, "cc", 0, None),  # hidden from bdoc
        (TWO, "", 1, 1),
        ({"gpu0_name": "H100"}, "bb", 0, 0),
        ({"gpu0_uuid": "MIG-GPU-5C-1f"}, "5c1F", 7, 0),  # two spellings of one
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


@pytest.mark.parametrize(("static", "gaps"), [(TWO, [HIDDEN]), ({}, [])])
def test_a_gpu_that_the_driver_hides_from_us_is_a_gap(static: dict[str, str], gaps: list[Gap]) -> None:
    drivers = read_drivers([Sample(0, "gpu_static", static)], [])
    assert find_hidden(drivers, [DeviceFacts(uuid="cc", driver=None)]) == gaps
    assert find_hidden(drivers, [DeviceFacts(uuid="aa", driver=0)]) == []


SUMMED = ("steps", "wall_s", "wait_s", "cpu_s", "backward_s", "checkpoint_s")


def table(rows: int) -> StepTable:
    made = StepTable(
        **{name: list(range(1, rows + 1)) for name in SUMMED},  # type: ignore[arg-type]
        t=[float(place) for place in range(rows)],
        runq_s=[None if place % 2 else 1.0 for place in range(rows)],
        gap_s=[None if place % 2 else 1.0 for place in range(rows)],
    )
    made.set_aside[:] = [""] * rows
    return made


@pytest.mark.parametrize(("passes", "expected"), [([], 20), ([(12, 5)], 13), ([(11, 2), (14, 8)], 8)])
def test_a_closure_that_runs_the_model_is_no_part_of_the_optimizer(
    passes: list[tuple[float, float]], expected: int
) -> None:
    rows = [row(wire.OPTIMIZER, 10, 20.0), *(row(wire.BACKWARD, t, taken, 0) for t, taken in passes)]
    assert read_marks(log(rows), 0).optimizer.between(0, 10**12) == expected * MS


TABLE = StepTable(t=[1.0, 2.0], steps=[50, 50], wall_s=[0.6, 0.6], wait_s=[0.1, 0.1])
LOOP = Loop("1:1", 1, 0, "train", 100, 1.2, 0.2, Epochs(), TABLE, backwards=100)
WINDOW = DispatchBreakdown(1, 40, 0.01, 0.01, 0.008, 0.007, 0.006, 0.002, 0.001, [0.004], backwards=1)
OPERATORS = {1: [Operator("aten::mm", 6.0, 0.006)]}


@pytest.mark.parametrize(
    ("window", "loop", "steps"),
    [
        (WINDOW, LOOP, True),
        (replace(WINDOW, backwards=0), LOOP, False),
        (replace(WINDOW, wall_s=0.001), LOOP, False),  # much shorter than a step
        (replace(WINDOW, backwards=0), replace(LOOP, role="evaluation", backwards=0), True),  # nothing trains
    ],
)
def test_a_window_that_saw_no_training_step_is_a_gap(
    window: DispatchBreakdown, loop: Loop, steps: bool
) -> None:
    anatomies, operators, gaps = hold_up([window], OPERATORS, [loop], [])
    assert (anatomies, operators) == (([window], OPERATORS[1]) if steps else ([], []))
    assert [one.what for one in gaps] == ([] if steps else ["one profiled step"])


def test_batches_that_were_fetched_ahead_are_counted() -> None:
    """Two micro-batches are fetched, and then computed: the window of one arrival saw both."""
    (anatomy,), (operator,), gaps = hold_up([replace(WINDOW, backwards=2, batches=2)], OPERATORS, [LOOP], [])
    assert (anatomy.operators, anatomy.cpu_s, anatomy.longest_operators_s) == (20, 0.005, [0.002])
    assert gaps == []
    assert (operator.calls, operator.self_cpu_s) == (3.0, 0.003)
