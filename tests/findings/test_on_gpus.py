"""What a report of a simulated GPU puts first, and what it never says of some data."""

from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.analyse.predict import gain
from bottleneck_doctor.findings.device_compute import sync_points
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.device import (
    Allocator,
    DeviceCopy,
    DeviceFacts,
    DeviceSync,
    DeviceWindow,
    Kernels,
    TorchSettings,
)
from bottleneck_doctor.model.diagnosis import Finding
from bottleneck_doctor.model.loops import HotFiles, Payload
from bottleneck_doctor.model.profile import Profile
from tests.analyse.devices import device_run
from tests.findings.builders import accelerator_run

MS = 1e-3
HOPPER = DeviceFacts(capability=(9, 0), copies=[], syncs=[])
PAGEABLE = DeviceCopy(4e7, 2.0, 9 * MS, 6 * MS, pinned=False, blocking=True, dtype="float32")
ROUNDED = [Kernels("matmul", 14 * MS, 300.0, 1e-4, "tf32", 1.0), Kernels("elementwise", 4 * MS, 300.0, 1e-5)]
STARVED = {"input_s": 15 * MS, "busy_s": 5 * MS, "host_s": 4 * MS, "facts": HOPPER}
COPYING = {"busy_s": 6 * MS, "transfer_s": 10 * MS, "host_s": 5 * MS}
FULL = {"busy_s": 19.5 * MS, "launch_s": 0.5 * MS, "host_s": 8 * MS}


def of_files(profile: Profile, suffix: str) -> Profile:
    """The run's samples come from such files, and decoding takes four fifths of their making."""
    (fetches,) = profile.fetches
    fetches.decode_s[:] = [0.8 * taken for taken in fetches.cpu_s]
    fetches.read_bytes[:] = [32 * 110_000] * len(fetches.t)
    payload = Payload("1:1", 9, tensors=2.0, tensor_bytes=32 * 150_528.0)
    return replace(profile, hot_files=[HotFiles("1:1", 60, 0, {suffix: 60})], payloads=[payload])


FIRST: dict[str, Any] = {
    "workers-auto": device_run(cpu=15 * MS, workers=0, cores=8.0, **STARVED),
    "pin-and-nonblocking": device_run(replace(HOPPER, copies=[PAGEABLE]), **COPYING),
    "dali-pipeline": of_files(device_run(cpu=40 * MS, **STARVED), ".jpg"),
    "stage-to-fast-storage": device_run(storage=40 * MS, **STARVED),
    "amp": device_run(replace(HOPPER, kernels=ROUNDED, switches=TorchSettings("high", "", False)), **FULL),
}


@pytest.mark.parametrize("remedy", FIRST)
def test_each_of_the_five_usual_remedies_comes_first_where_it_is_the_cure(remedy: str) -> None:
    first = write_up(FIRST[remedy]).remedies[0]
    assert first.id == remedy
    assert first.predicted_speedup.reach > 1.2


SMALL = DeviceCopy(65_536.0, 2.0, 9 * MS, 1e-5, pinned=False, blocking=True, dtype="int64")
TINY = replace(HOPPER, copies=[SMALL])
NEVER = {
    "text": of_files(device_run(cpu=40 * MS, **STARVED), ".txt"),
    "text that the loop waits for": device_run(TINY, busy_s=11 * MS, sync_s=7 * MS, host_s=12 * MS),
    "rows of a table": device_run(TINY, **FULL),
    "on the device already": device_run(HOPPER, **FULL),
}


@pytest.mark.parametrize("data", NEVER)
def test_what_is_small_or_on_the_device_is_not_pinned_and_no_text_is_decoded_by_dali(data: str) -> None:
    for one in write_up(NEVER[data]).remedies:
        assert one.id != "dali-pipeline"
        assert "pin_memory=True" not in one.fix.snippet, one.id


def test_calls_that_read_nothing_are_to_be_deleted_at_their_lines() -> None:
    timing = DeviceSync("synchronize", 3.0, 9 * MS, 5 * MS, "train.py", 40)
    emptying = DeviceSync("empty_cache", 1.0, MS, 0.0, "train.py", 44)
    facts = replace(HOPPER, syncs=[timing, emptying], allocator=Allocator(400, empty_cache_calls=400))
    report = write_up(device_run(facts, busy_s=8 * MS, sync_s=5 * MS, memory_s=4 * MS, host_s=12 * MS))
    fixes = {one.id: (one.fix.location.line, one.fix.snippet[:36]) for one in report.remedies}
    assert fixes["defer-readback"] == (40, "# delete: torch.cuda.synchronize()  ")
    assert fixes["drop-empty-cache"] == (44, "# delete: torch.cuda.empty_cache()")


COPY = DeviceCopy(128.0, 1.0, 1e-4, 1e-4, pinned=False, blocking=True)  # it waits for the device as well


@pytest.mark.parametrize("host_s", [0.006, 0.010, 0.0135])
@pytest.mark.parametrize("copies", [[], [COPY]], ids=["alone", "beside a copy that waits"])
def test_no_step_gets_shorter_than_the_loops_own_work(host_s: float, copies: list[DeviceCopy]) -> None:
    """Values that are read back less often leave the loop its own work, and no more is promised."""
    busy_s, input_s = 0.004, 0.0003
    beat = DeviceWindow(400, busy_s + host_s + input_s, busy_s, input_s, sync_s=host_s, host_s=host_s)
    read = DeviceSync("item", 1.0, 0.003, host_s, "train.py", 4)
    diagnosis = accelerator_run(beat, DeviceFacts(syncs=[read], copies=copies), wait_s=input_s)
    found = sync_points.ask(diagnosis)
    assert isinstance(found, Finding)
    assert diagnosis.scenario is not None
    change = found.proposals[0].change
    assert change is not None
    promised = gain(diagnosis.scenario, change)
    assert 1.2 < promised <= 1.05 * beat.wall_s / max(host_s, busy_s)
    unseen = accelerator_run(beat, DeviceFacts(syncs=[replace(read, count=0.0, file="")]), wait_s=input_s)
    told = sync_points.ask(unseen)
    assert isinstance(told, Finding)
    assert {one.metric for one in told.evidence} == {"device_sync_share"}, "no count where no call was seen"
