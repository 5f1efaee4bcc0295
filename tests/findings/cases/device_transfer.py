"""Cases of the findings in device_transfer.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.device import (
    Allocator,
    DeviceCopy,
    DeviceFacts,
    DeviceSync,
    DeviceView,
    DeviceWindow,
    DriverView,
)
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis
from bottleneck_doctor.model.loops import Loader, Payload
from tests.findings.builders import (
    COPYING,
    PLACE,
    SATURATED,
    STARVED,
    Case,
    abstains,
    accelerator_run,
    fires,
    silent,
)


# transfer-not-overlapped
def _copies(dtype: str = "float32", engine_s: float = 0.009, aside: bool = False) -> DeviceFacts:
    copy = DeviceCopy(1e8, 1.0, 1e-4, engine_s, True, False, dtype, "train.py", 31, aside)
    return DeviceFacts(copies=[copy])


FLOODED = DeviceWindow(400, 0.02, 0.004, transfer_s=0.016, host_s=0.003)


def transfer_not_overlapped() -> tuple[Case, ...]:
    long, aside = _copies(engine_s=0.016), _copies(engine_s=0.016, aside=True)
    return (
        fires("100 MB a step before the kernels", accelerator_run(COPYING, _copies()), "device-prefetcher"),
        fires("longer than all kernels", accelerator_run(FLOODED, long), "half-inputs"),
        fires("bytes, on one stream", accelerator_run(COPYING, _copies("uint8")), "device-prefetcher"),
        fires("on a stream of their own already", accelerator_run(FLOODED, aside), "half-inputs"),
        silent("copies are hidden behind kernels", accelerator_run(SATURATED, _copies())),
        abstains("copies were not watched", accelerator_run(COPYING)),
    )


# pageable-copies
def _copy(pinned: bool = False, blocking: bool = True, host_s: float = 0.009) -> list[DeviceCopy]:
    return [DeviceCopy(4e7, 2.0, host_s, 0.006, pinned, blocking, "float32", "train.py", 31)]


MADE = [DeviceCopy(4e7, 2.0, 0.009, 0.006, False, True, "float32", "train.py", 31, made=True)]
EMPTIED = DeviceWindow(400, 0.02, 0.011, sync_s=0.005, transfer_s=0.004, host_s=0.009)  # idle after each copy
READS = [DeviceSync("item", 1.0, 0.01, 0.0, "train.py", 40)]
PLAIN = Loader("1:1", "dataloader", 1, "Photos", batch_size=32, dataset_length=50_000)


def pageable_copies() -> tuple[Case, ...]:
    paged, quiet, few = _copy(), _copy(True, False), _copy(host_s=1e-4)
    read = DeviceFacts(copies=paged, syncs=READS)
    alone = DeviceFacts(copies=paged, syncs=[])
    return (
        fires("from pageable", accelerator_run(COPYING, DeviceFacts(copies=paged)), "pin-and-nonblocking"),
        fires("the queue is empty", accelerator_run(EMPTIED, alone), "pin-and-nonblocking"),
        fires("the loss is read", accelerator_run(COPYING, read, loader=PLAIN), "pin-and-nonblocking"),
        fires("noise made there", accelerator_run(COPYING, DeviceFacts(copies=MADE)), "build-on-device"),
        silent("no copy blocks", accelerator_run(COPYING, DeviceFacts(copies=quiet))),
        silent("a few labels", accelerator_run(SATURATED, DeviceFacts(copies=few))),
        abstains("copies were not watched", accelerator_run(COPYING)),
    )


# small-dataset-on-host
GIB = 2**30  # bytes, for the cases
ROWS = Loader("1:1", "dataloader", 1, "TensorDataset", batch_size=256, dataset_length=60_000,
              tensor_dataset=True, location=PLACE)  # fmt: skip
FILES = replace(ROWS, dataset="Photos", tensor_dataset=False)
SLOW_ROWS = BatchCost(0.035, 0.003)  # that two workers pick for 256 samples, one by one


def _case(
    beat: DeviceWindow | None, work: BatchCost, loader: Loader = ROWS, batch_bytes: float = 8e5
) -> Diagnosis:
    facts = DeviceFacts(memory_bytes=24 * GIB, allocator=Allocator(400, peak_bytes=4 * GIB))
    base = accelerator_run(beat, facts, loader=loader, work=work)
    return replace(base, profile=replace(base.profile, payloads=[Payload("1:1", 8, 2.0, batch_bytes)]))


def small_dataset_on_host() -> tuple[Case, ...]:
    unseen = replace(_case(STARVED, SLOW_ROWS), device=DeviceView(DeviceFacts(), DriverView(), STARVED))
    return (
        fires("188 MB of rows, picked one by one", _case(STARVED, SLOW_ROWS), "gpu-resident-dataset"),
        fires("the same rows, held up by copies", _case(COPYING, BatchCost(1e-3)), "gpu-resident-dataset"),
        silent("too large for the device", _case(STARVED, SLOW_ROWS, batch_bytes=1e8)),
        silent("files, not rows", _case(STARVED, SLOW_ROWS, FILES)),
        silent("the device does not wait", _case(SATURATED, BatchCost(1e-3))),
        abstains("memory is not known", unseen),
    )
