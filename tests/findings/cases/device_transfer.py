"""Cases of the findings in device_transfer.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.derived import DeviceStepBreakdown, DeviceView, DriverView
from bottleneck_doctor.model.device import Allocator, DeviceCopy, DeviceFacts, DeviceSync
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis
from bottleneck_doctor.model.fetches import Payload
from bottleneck_doctor.model.loops import Loader
from tests.findings.builders import COPYING, PLACE, SATURATED, STARVED, Case, accelerator_run


# transfer-not-overlapped
def _copies(dtype: str = "float32", engine_s: float = 0.009, aside: bool = False) -> DeviceFacts:
    copy = DeviceCopy(1e8, 1.0, 1e-4, engine_s, True, False, dtype, "train.py", 31, aside)
    return DeviceFacts(copies=[copy])


FLOODED = DeviceStepBreakdown(400, 0.02, 0.004, transfer_s=0.016, host_s=0.003)


def transfer_not_overlapped() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("100 MB a step before the kernels", accelerator_run(COPYING, _copies()), "fires",
             "device-prefetcher"),
        Case("copies longer than all kernels", accelerator_run(FLOODED, _copies(engine_s=0.016)), "fires",
             "half-inputs"),
        Case("bytes already, on one stream", accelerator_run(COPYING, _copies("uint8")), "fires",
             "device-prefetcher"),
        Case("on a stream of their own already, and still too long",
             accelerator_run(FLOODED, _copies(engine_s=0.016, aside=True)), "fires", "half-inputs"),
        Case("copies are hidden behind kernels", accelerator_run(SATURATED, _copies()), "silent"),
        Case("copies were not watched", accelerator_run(COPYING), "abstains"),
        Case("only the driver was asked", accelerator_run(None), "abstains"),
    )  # fmt: skip


# pageable-copies
def _copy(pinned: bool = False, blocking: bool = True, host_s: float = 0.009) -> list[DeviceCopy]:
    return [DeviceCopy(4e7, 2.0, host_s, 0.006, pinned, blocking, "float32", "train.py", 31)]


MADE = [DeviceCopy(4e7, 2.0, 0.009, 0.006, False, True, "float32", "train.py", 31, made=True)]
EMPTIED = DeviceStepBreakdown(
    400, 0.02, 0.011, sync_s=0.005, transfer_s=0.004, host_s=0.009
)  # idle after each copy
READS = [DeviceSync("item", 1.0, 0.01, 0.0, "train.py", 40)]
PLAIN = Loader("1:1", "dataloader", 1, "Photos", batch_size=32, dataset_length=50_000)


def pageable_copies() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    paged, quiet, few = _copy(), _copy(True, False), _copy(host_s=1e-4)
    return (
        Case(
            "40 MB a step from pageable memory",
            accelerator_run(COPYING, DeviceFacts(copies=paged)),
            "fires",
            "pin-and-nonblocking",
        ),
        Case(
            "the queue is empty after each",
            accelerator_run(EMPTIED, DeviceFacts(copies=paged, syncs=[])),
            "fires",
            "pin-and-nonblocking",
        ),
        Case(
            "the same, and the loss is read every step",
            accelerator_run(COPYING, DeviceFacts(copies=paged, syncs=READS), loader=PLAIN),
            "fires",
            "pin-and-nonblocking",
        ),
        Case(
            "noise is made on the host, and copied",
            accelerator_run(COPYING, DeviceFacts(copies=MADE)),
            "fires",
            "build-on-device",
        ),
        Case("no copy blocks", accelerator_run(COPYING, DeviceFacts(copies=quiet)), "silent"),
        Case("a few labels", accelerator_run(SATURATED, DeviceFacts(copies=few)), "silent"),
        Case("copies were not watched", accelerator_run(COPYING), "abstains"),
        Case("only the driver was asked", accelerator_run(None), "abstains"),
    )


# small-dataset-on-host
GIB = 2**30  # bytes, for the cases
ROWS = Loader("1:1", "dataloader", 1, "TensorDataset", batch_size=256, dataset_length=60_000,
              tensor_dataset=True, location=PLACE)  # fmt: skip
FILES = replace(ROWS, dataset="Photos", tensor_dataset=False)
SLOW_ROWS = BatchCost(0.035, 0.003)  # that two workers pick for 256 samples, one by one


def _case(
    beat: DeviceStepBreakdown | None, work: BatchCost, loader: Loader = ROWS, batch_bytes: float = 8e5
) -> Diagnosis:
    facts = DeviceFacts(memory_bytes=24 * GIB, allocator=Allocator(400, peak_bytes=4 * GIB))
    base = accelerator_run(beat, facts, loader=loader, work=work)
    return replace(base, profile=replace(base.profile, payloads=[Payload("1:1", 8, 2.0, batch_bytes)]))


def small_dataset_on_host() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    unseen = replace(_case(STARVED, SLOW_ROWS), device=DeviceView(DeviceFacts(), DriverView(), STARVED))
    return (
        Case("188 MB of rows, picked one by one", _case(STARVED, SLOW_ROWS), "fires", "gpu-resident-dataset"),
        Case(
            "the same rows, held up by copies",
            _case(COPYING, BatchCost(1e-3)),
            "fires",
            "gpu-resident-dataset",
        ),
        Case("too large for the device", _case(STARVED, SLOW_ROWS, batch_bytes=1e8), "silent"),
        Case("files, not rows", _case(STARVED, SLOW_ROWS, FILES), "silent"),
        Case("the device does not wait", _case(SATURATED, BatchCost(1e-3)), "silent"),
        Case("memory is not known", unseen, "abstains"),
        Case("only the driver was asked", _case(None, SLOW_ROWS), "abstains"),
    )
