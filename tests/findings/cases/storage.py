"""Cases of the findings in storage.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, HostLoad, Inputs, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import HotFiles, Payload
from bottleneck_doctor.model.run import Process
from tests.findings.builders import Case, abstains, fires, inputs_of, silent, steady_run

DIRECT, ONE_FILE = HotFiles("1:1", 1, 0, direct=True), HotFiles("1:1", 1, 0)
NFS = HotFiles("1:1", 9, 0, mounts={"nfs4": 9})

# storage-latency-bound
LATENCY_WORK = BatchCost(0.002, storage=0.02)
LATENCY_SMALL = inputs_of(LATENCY_WORK, 1, 0.022, storage_bytes=2e6, read_bytes=2e6, reads=512.0)
MAPPED = replace(LATENCY_SMALL, read_bytes=0.0, reads=0.0, major_faults=500.0)
LATENCY_LARGE = replace(LATENCY_SMALL, storage_bytes=16e6, read_bytes=16e6, reads=4.0)
QUIET = HostLoad(cores=2.0, disk_busy=0.9, disk_queue=0.9, job_read_bytes_per_s=1e8)


def _latency_case(inputs: Inputs, host: HostLoad = QUIET) -> Diagnosis:
    """One worker that sleeps in reads for most of a batch's 22 ms; the loop takes 2 ms."""
    return replace(steady_run(LATENCY_WORK, StepCost(0.0, 0.002), workers=1, inputs=inputs), host=host)


def _of(hot: HotFiles, sick: Diagnosis) -> Diagnosis:
    """The same of data in other files."""
    return replace(sick, profile=replace(sick.profile, hot_files=[hot]))


def _committing() -> Diagnosis:
    """One worker that waits for 15 of 20 ms until a journal is on the disk."""
    base = _latency_case(replace(LATENCY_SMALL, written=0.015))
    path = ["fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)", "__getitem__ (/data/train.py:31)"]
    text = "def __getitem__(self, i):\n    self.base.commit()\n    return self.x[i]\n"
    workers = [Process(1, 0, "trainer", 0.0), Process(7, 1, "worker", 0.0, loader="1:1")]
    profile = replace(
        base.profile, processes=workers, stacks=[Stack(7, "worker", "MainThread", path, 90, 30)],
        sources=[FunctionSource("/data/train.py", "__getitem__", 30, text)],
    )  # fmt: skip
    return replace(base, profile=profile)


def storage_latency_bound() -> tuple[Case, ...]:
    return (
        fires("a commit per sample", _committing(), "write-less -stage-to-fast-storage -readahead-hints"),
        fires("small reads one after the other", _latency_case(LATENCY_SMALL), "workers-auto"),
        fires("O_DIRECT", _of(DIRECT, _latency_case(LATENCY_SMALL)), "workers-auto -readahead-hints"),
        fires("a memory map at random", _latency_case(MAPPED), "readahead-hints"),
        fires("readahead around rows", _latency_case(replace(MAPPED, storage_bytes=1e9)), "readahead-hints"),
        fires("uncounted", _latency_case(LATENCY_SMALL, replace(QUIET, disk_busy=None)), "workers-auto"),
        silent("a full queue", _latency_case(LATENCY_LARGE, replace(QUIET, disk_queue=20.0))),
        silent("decoding, not reading", steady_run(BatchCost(0.02), StepCost(0.0, 0.002), workers=1)),
    )


# storage-bandwidth-bound
BANDWIDTH_WORK = BatchCost(0.002, storage=0.06)
BANDWIDTH_LARGE = inputs_of(BANDWIDTH_WORK, 4, 0.0155, storage_bytes=16e6, read_bytes=16e6, reads=4.0)
FULL = HostLoad(cores=4.0, disk_busy=1.0, disk_queue=20.0, job_read_bytes_per_s=1e9)


def _bandwidth_case(inputs: Inputs = BANDWIDTH_LARGE, host: HostLoad = FULL) -> Diagnosis:
    """Workers that sleep in large reads for nearly all of a batch; the loop takes 2 ms."""
    sick = steady_run(BANDWIDTH_WORK, StepCost(0.0, 0.002), workers=4, cores=4.0, inputs=inputs)
    return replace(sick, host=host)


def _limited(limit_bytes_per_s: float) -> Diagnosis:
    sick = _bandwidth_case(host=replace(FULL, disk_busy=0.2, disk_queue=0.3))
    machine = replace(sick.profile.machine, read_limit_bytes_per_s=limit_bytes_per_s)
    return replace(sick, profile=replace(sick.profile, machine=machine))


def storage_bandwidth_bound() -> tuple[Case, ...]:
    return (
        fires("four workers at a full disk", _bandwidth_case(), "stage-to-fast-storage"),
        fires("a control group's limit is reached", _limited(1.1e9), "stage-to-fast-storage"),
        silent("a control group's limit is far", _limited(9e9)),
        silent("the disk idles most of the time", _bandwidth_case(host=replace(FULL, disk_busy=0.3))),
        silent("many small reads", _bandwidth_case(inputs=replace(BANDWIDTH_LARGE, reads=4000.0))),
        abstains("no disk counters", _bandwidth_case(host=HostLoad(cores=4.0))),
    )


# remote-storage-latency
REMOTE_WORK = BatchCost(0.001, network=0.03)


def _remote_case(inputs: Inputs, work: BatchCost = REMOTE_WORK) -> Diagnosis:
    """Two workers that wait for an object store; the loop takes 3 ms."""
    return steady_run(work, StepCost(0.0, 0.003), workers=2, inputs=inputs)


OBJECTS = inputs_of(REMOTE_WORK, 2, 0.0155)
ASLEEP = BatchCost(0.001, wait=0.03)


def remote_storage_latency() -> tuple[Case, ...]:
    return (
        fires("objects one by one", _remote_case(OBJECTS), "workers-auto"),
        fires("a mount across the network", _of(NFS, _remote_case(OBJECTS)), "local-mirror"),
        silent("sleeping between requests", _remote_case(inputs_of(ASLEEP, 2, 0.0155), ASLEEP)),
        abstains("no sampled waits", _remote_case(inputs_of(ASLEEP, 2, 0.0155, blocked_samples=0), ASLEEP)),
    )


# small-files
COLD = BatchCost(0.002, storage=0.02)
WARM = BatchCost(0.02)
FILES_SMALL = {"read_bytes": 5e5, "reads": 64.0, "opens": 32.0}
COLD_FILES = inputs_of(COLD, 1, 0.022, system=0.001, storage_bytes=5e5, **FILES_SMALL)
WARM_FILES = inputs_of(WARM, 1, 0.02, system=0.012, **FILES_SMALL)


def _files_case(work: BatchCost, inputs: Inputs) -> Diagnosis:
    return steady_run(work, StepCost(0.0, 0.002), workers=1, inputs=inputs)


def small_files() -> tuple[Case, ...]:
    return (
        fires("cold small files", _files_case(COLD, COLD_FILES), "pack-shards"),
        fires("warm small files", _files_case(WARM, WARM_FILES), "pack-shards"),
        silent("warm files, decoded", _files_case(WARM, replace(WARM_FILES, system=0.002))),
        silent("large files", _files_case(COLD, replace(COLD_FILES, read_bytes=64e6))),
        silent("files written, not read", _files_case(COLD, replace(COLD_FILES, written=COLD.storage))),
        silent("one file, opened per sample", _of(ONE_FILE, _files_case(COLD, COLD_FILES))),
        abstains("opens were not counted", _files_case(COLD, replace(COLD_FILES, opens=None))),
    )


# container-format-misuse
WORK = BatchCost(0.02)
REOPENED = inputs_of(WORK, 1, 0.02, containers=32.0, container=0.015, container_cpu=0.015)


def _container_case(inputs: Inputs) -> Diagnosis:
    """A worker that reads rows out of an HDF5 file; batches of 1 MB."""
    sick = steady_run(WORK, StepCost(0.0, 0.002), workers=1, inputs=inputs)
    hot = [HotFiles("1:1", 1, 0, {".h5": 1})]
    return replace(sick, profile=replace(sick.profile, hot_files=hot, payloads=[Payload("1:1", 9, 1.0, 1e6)]))


def container_format_misuse() -> tuple[Case, ...]:
    return (
        fires("opened for each sample", _container_case(REOPENED), "open-once-per-worker"),
        silent("opened for each sample, at no cost", _container_case(replace(REOPENED, container=0.001))),
        silent("opened once a batch", _container_case(replace(REOPENED, containers=1.0))),
        abstains("an older profile", _container_case(replace(REOPENED, containers=None))),
    )
