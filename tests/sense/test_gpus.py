"""GPUs are read in threads of their own, which neither the job nor the supervisor waits for."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense import gpus
from bottleneck_doctor.sense.amd import INSTALL
from bottleneck_doctor.sense.gpus import HANGS_NS, MOST_FAILURES, NO_ANSWER, GpuReader, list_gpu_names, load
from tests.sense.conftest import Plant

NO_LIBRARY = Gap("gpu counters", "NVML does not start: no library", "install the NVIDIA driver")


@pytest.mark.parametrize(
    ("files", "why", "do"),
    [
        ({"dev/nvidiactl": "", "dev/kfd": ""}, NO_LIBRARY.why, NO_LIBRARY.do),
        ({"dev/kfd": ""}, "of the AMD GPU only its own clock", INSTALL),
    ],
)
def test_a_run_on_an_accelerator_says_what_it_lacks(
    plant: Plant, files: dict[str, str], why: str, do: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "load_nvml", lambda: NO_LIBRARY)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    found = load(plant(files))
    assert isinstance(found, list)
    (gap,) = found
    assert why in gap.why
    assert gap.do == do


def test_a_missing_binding_is_a_gap_only_where_a_driver_is(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert list_gpu_names(plant({"dev/": ""})) == ([], [])
    (gap,) = list_gpu_names(plant({"dev/nvidiactl": ""}))[1]
    assert gap.do == "pip install nvidia-ml-py"


S = 1_000_000_000
JOB = frozenset({7})


class Driver:
    """Stands for the GPUs: ``answers`` is waited for at the start, ``broken`` fails at each reading."""

    def __init__(self) -> None:
        self.opened = 0
        self.broken = self.closed = False
        self.answers = threading.Event()
        self.answers.set()
        self.blocked: set[Any] = set()

    def __call__(self, binding: object) -> Driver:
        self.opened += 1
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        self.answers.wait(30)
        return self

    def static(self) -> dict[str, float]:
        return {"gpu0_memory_bytes": 80}

    def read(self, job: frozenset[int]) -> dict[str, float]:
        if self.broken:
            raise ZeroDivisionError
        return {"gpu0_busy_share": 0.5}

    def gaps(self) -> list[Gap]:
        return []

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(gpus, "load_nvml", object)
    monkeypatch.setattr(gpus, "Gpus", made)
    return made


def settle(reader: GpuReader) -> None:
    """Waits for the reading under way, as nothing else does."""
    assert reader._thread is not None
    reader._thread.join(30)


def sensors(reader: GpuReader) -> list[str]:
    return [sample.sensor for sample in reader.samples()]


def test_a_reading_is_taken_up_at_a_later_look_and_no_signal_reaches_its_thread(driver: Driver) -> None:
    reader = GpuReader(0)
    reader.look(0, JOB)
    settle(reader)
    assert sensors(reader) == ["gpu_static"]
    reader.look(1, JOB)
    assert sensors(reader) == ["gpu_static", "gpu"]
    assert reader.next_ns is not None
    assert 0.3 * S < reader.next_ns < S
    assert driver.blocked >= {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT}
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("returns", [True, False])
def test_a_driver_that_hangs_is_not_asked_again_before_it_returns(driver: Driver, returns: bool) -> None:
    driver.answers.clear()
    reader = GpuReader(0)
    for now_ns in (0, S, HANGS_NS + 1):
        reader.look(now_ns, JOB)
    assert driver.opened == 1
    assert reader.gaps() == [NO_ANSWER]
    if returns:
        driver.answers.set()
        settle(reader)
        reader.look(HANGS_NS + 2, JOB)
        assert (reader.gaps(), sensors(reader)) == ([], ["gpu_static", "gpu"])
    reader.close()  # at once: a hang is not waited for
    assert driver.closed is returns
    driver.answers.set()


def test_a_reader_that_keeps_failing_gives_up_with_one_gap(driver: Driver) -> None:
    driver.broken = True
    reader = GpuReader(0)
    for now_s in range(2 * MOST_FAILURES):
        reader.look(2 * now_s * S, JOB)
        if reader._thread is not None:
            settle(reader)
    assert reader.next_ns is None
    assert [gap.what for gap in reader.gaps()] == ["gpu sensor"]


def test_where_no_thread_can_be_started_the_gpus_are_a_gap(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    reader = GpuReader(0)
    for now_s in range(2 * MOST_FAILURES):
        reader.look(2 * now_s * S, JOB)
    reader.close()
    assert reader.next_ns is None
    assert [gap.why for gap in reader.gaps()] == ["RuntimeError: can't start new thread"]
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    names, gaps = list_gpu_names(tmp_path)
    assert (names, [gap.why for gap in gaps]) == ([], ["can't start new thread"])
