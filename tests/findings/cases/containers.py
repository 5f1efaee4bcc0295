"""Cases of the findings in containers.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, Inputs, StepCost
from bottleneck_doctor.model.fetches import HotFiles, Making, Payload
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.run import Machine, Process
from tests.findings.builders import Case, abstains, fires, inputs_of, silent, steady_run

# container-format-misuse
WORK = BatchCost(0.02)
REOPENED = inputs_of(WORK, 1, 0.02, containers=32.0, container=0.015, container_cpu=0.015)
COLD = BatchCost(0.002, storage=0.02)
CHUNKED = inputs_of(COLD, 1, 0.022, storage_bytes=64e6, read_bytes=64e6, reads=32.0, containers=0.0)


def _container_case(inputs: Inputs, work: BatchCost = WORK) -> Diagnosis:
    """A worker that reads rows out of an HDF5 file; batches of 1 MB."""
    sick = steady_run(work, StepCost(0.0, 0.002), workers=1, inputs=inputs)
    hot = [HotFiles("1:1", 1, 0, {".h5": 1})]
    return replace(sick, profile=replace(sick.profile, hot_files=hot, payloads=[Payload("1:1", 9, 1.0, 1e6)]))


def _unpacked() -> Diagnosis:
    """The same with all CPU time inside h5py and no reads from a disk."""
    sick = _container_case(inputs_of(WORK, 1, 0.02, read_bytes=8e6, reads=32.0, containers=0.0))
    below = "fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)"
    path = [
        below,
        "Rows.__getitem__ (/data/train.py:31)",
        "__getitem__ (/x/site-packages/h5py/_hl/dataset.py:9)",
    ]
    maker = Process(7, 1, "worker", 0.0, loader="1:1")
    stacks = [Stack(7, "worker", "MainThread", path, 90, 90)]
    return replace(sick, profile=replace(sick.profile, stacks=stacks, processes=[maker]))


def container_format_misuse() -> tuple[Case, ...]:
    return (
        fires("opened for each sample", _container_case(REOPENED), "open-once-per-worker"),
        fires("chunks of 64 rows", _container_case(CHUNKED, COLD), "rechunk"),
        fires("rows unpacked out of large chunks", _unpacked(), "rechunk"),
        silent("opened for each sample, at no cost", _container_case(replace(REOPENED, container=0.001))),
        silent("opened once a batch", _container_case(replace(REOPENED, containers=1.0))),
        silent("as much read as used", _container_case(replace(CHUNKED, storage_bytes=2e6), COLD)),
        abstains("an older profile", _container_case(replace(REOPENED, containers=None))),
    )


# decompression-bound
LOOP_COST = StepCost(0.0, 0.002)


def _decompress_case(unpack_s: float, memory: int | None = 64 << 30, cost: StepCost = LOOP_COST) -> Diagnosis:
    """Two workers, 20 ms of CPU a batch, of which ``unpack_s`` unpacks 2 MB."""
    base = steady_run(BatchCost(0.02), cost, workers=2)
    machine = Machine("", "", "", 2, 2.0, memory_bytes=memory)
    makings = [Making("1:1", 400, unpack_s, 2e6)]
    return replace(base, profile=replace(base.profile, makings=makings, machine=machine))


def decompression_bound() -> tuple[Case, ...]:
    return (
        fires("gzip files in the page cache", _decompress_case(0.016), "reencode-offline"),
        fires("no memory for them unpacked", _decompress_case(0.016, None), "reencode-offline"),
        silent("another preparation dominates", _decompress_case(0.003)),
        silent("the workers keep up", _decompress_case(0.016, cost=StepCost(0.0, 0.03))),
    )
