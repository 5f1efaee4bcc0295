"""What was timed after the run becomes Changes, and only where it is what the training does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.findings import decode_bound
from bottleneck_doctor.findings.parts.entry import inputs_of, patient
from bottleneck_doctor.findings.parts.timed import decoding, from_memory, moving, packed
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, Finding, Scenario, StepCost
from bottleneck_doctor.model.fetches import HotFiles
from bottleneck_doctor.model.instruments import Calibration
from bottleneck_doctor.prescribe import write_up
from tests.analyse.runs import run_of

WORK = BatchCost(0.008, storage=0.032)
SIZE = 16_384.0


def timed(subject: str, variant: str, seconds: float, cpu_s: float, depth: int = 1) -> Calibration:
    return Calibration("1:1", subject, variant, seconds, cpu_s, 100, depth, SIZE)


FILES = [
    timed("file", "cold", 1.2e-3, 2e-4), timed("file", "cold", 9e-3, 2e-4, depth=8),
    timed("file", "memory", 5e-5, 5e-5), timed("file", "packed", 3e-4, 1e-4), timed("files", "sizes", 0, 0),
]  # fmt: skip


def reading(
    rows: list[Calibration],
    files: int = 10,
    memory: int | None = 1 << 30,
    trusted: bool = True,
    shared: int | None = None,
) -> Diagnosis:
    """One worker opens 32 files a batch: 1 ms asleep and 0.25 ms of CPU for each."""
    inputs = inputs_of(WORK, 1, 0.04, opens=32.0, reads=32.0, storage_bytes=5e5, read_bytes=5e5)
    served = ((1.0, 1.0), (8.0, 9.0)) if trusted else ()
    scene = Scenario((WORK,), (StepCost(0.0, 0.002),), workers=1, cores=2.0, served=served)
    base = patient(WORK, StepCost(0.0, 0.002), workers=1, inputs=inputs, scenario=scene)
    machine = replace(base.profile.machine, memory_bytes=memory, shm_free_bytes=shared)
    hot = [HotFiles("1:1", files, 0, decoders=["cv2"])]
    return replace(base, profile=replace(base.profile, calibrations=rows, hot_files=hot, machine=machine))


def test_reads_from_memory_sleep_no_more_and_cost_their_own_cpu() -> None:
    change = from_memory(reading(FILES))
    assert change is not None
    assert (change.storage, change.cpu) == (0.0, pytest.approx(1 - 32 * 1.5e-4 / 0.008))


def test_files_that_do_not_fit_into_memory_are_not_promised_it() -> None:
    assert from_memory(reading(FILES, memory=int(10 * SIZE))) is None
    assert from_memory(reading(FILES, memory=None)) is None
    assert from_memory(reading(FILES, shared=int(5 * SIZE))) is None
    assert from_memory(reading(FILES, files=64, memory=1 << 31)) is not None  # 50 000 samples of 16 KB
    assert from_memory(reading(FILES, files=64, memory=1 << 30)) is None


def test_packing_spares_sleep_as_timed_and_cpu_with_a_doubt() -> None:
    found = packed(reading(FILES), 0.6)
    assert found is not None
    assert [one.storage for one in found] == [pytest.approx(0.2)] * 3
    assert [one.cpu for one in found] == [pytest.approx(0.6), pytest.approx(0.4), pytest.approx(0.25)]


@pytest.mark.parametrize("rows", [[], FILES[:2], [FILES[3]]])
def test_what_was_not_timed_is_not_promised(rows: list[Calibration]) -> None:
    assert packed(reading(rows), 0.6) is None
    assert from_memory(reading(rows)) is None


def test_reads_that_were_not_the_trainings_promise_nothing() -> None:
    assert packed(reading(FILES, trusted=False), 0.6) is None
    assert from_memory(reading(FILES, trusted=False)) is None


@pytest.mark.parametrize(("each_s", "known"), [(1e-4, True), (1e-3, False), (1e-5, False)])
def test_decoders_count_where_the_one_that_ran_costs_what_it_did(each_s: float, known: bool) -> None:
    base = reading([timed("picture", "OpenCV", each_s, each_s), timed("picture", "PIL", 1e-4, 1e-4)])
    base = replace(base, inputs=replace(base.inputs, decode=32 * 1e-4))
    rows, used, _ = decoding(base, {"cv2": "OpenCV"})
    assert (set(rows), used) == (({"OpenCV", "PIL"}, "OpenCV") if known else (set(), ""))


def test_a_sample_may_be_made_of_several_pictures() -> None:
    base = reading([timed("picture", "PIL", 1e-4, 1e-4)])
    inputs = replace(base.inputs, samples=32.0, decode=4 * 32 * 1.1e-4)
    assert decoding(replace(base, inputs=replace(inputs, opens=32.0)), {"cv2": "PIL"}) == ({}, "", 0.0)
    _, used, count = decoding(replace(base, inputs=replace(inputs, opens=200.0)), {"cv2": "PIL"})
    assert (used, count) == ("PIL", 128.0)


@pytest.mark.parametrize(("cpu_s", "known"), [(0.01, True), (0.1, False)])
def test_moving_counts_where_receiving_costs_what_it_did(cpu_s: float, known: bool) -> None:
    rows = [
        timed("moving", "now", 0.03, cpu_s), timed("moving", "packed", 0.003, 3e-4),
        timed("using", "now", 0.002, 0.002), timed("using", "packed", 0.001, 0.001),
    ]  # fmt: skip
    base = reading(rows)
    assert base.scenario is not None
    scene = replace(base.scenario, hand_over=0.01, costs=(StepCost(0.004),))
    change = moving(replace(base, scenario=scene), "packed")
    assert (change is not None) is known
    if change is not None:
        assert (change.ipc, change.compute) == (pytest.approx(0.1), pytest.approx(0.75))


def test_a_calibrated_remedy_says_so_in_the_report() -> None:
    run = run_of(workers=1, storage=0.02, cpu=0.001, idle=0.002, cores=4.0)
    reads = [timed("read", "cold", 0.0201, 1e-4, depth=depth) for depth in (1, 2, 4, 8)]
    proposals = {one.id: one for one in write_up(replace(run, calibrations=reads)).remedies}
    assert proposals["workers-auto"].predicted_speedup.basis == "calibrated"
    full = [timed("read", "cold", 0.02 * depth + 1e-4, 1e-4, depth=depth) for depth in (1, 2, 4, 8)]
    told = {one.id: one for one in write_up(replace(run, calibrations=full)).remedies}
    assert "workers-auto" not in told or told["workers-auto"].predicted_speedup.likely < 1.1


@pytest.mark.parametrize(("other_s", "offered"), [(4e-4, True), (9e-4, False)])
def test_another_decoder_is_offered_only_where_it_was_faster(other_s: float, offered: bool) -> None:
    photos = next(case for case in decode_bound.cases() if case.name == "large JPEG files").diagnosis
    rows = [timed("picture", "PIL", 7.5e-4, 7.5e-4), timed("picture", "simplejpeg", other_s, other_s)]
    hot = [replace(photos.profile.hot_files[0], decoders=["PIL.ImageFile"])]
    found = decode_bound.examine(
        replace(photos, profile=replace(photos.profile, calibrations=rows, hot_files=hot))
    )
    assert isinstance(found, Finding)
    swap = [proposal for proposal in found.proposals if proposal.id == "decoder-swap"]
    assert [proposal.basis for proposal in swap] == (["calibrated"] if offered else [])
    assert all(proposal.title.endswith("simplejpeg") for proposal in swap)
