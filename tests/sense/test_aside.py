"""GPUs are read beside the loop that watches the training: nothing there waits for the driver."""

from __future__ import annotations

import signal
import threading

from bottleneck_doctor.sense.gpus import HANGS_NS, MOST_FAILURES, GpuReader
from bottleneck_doctor.sense.nvml import NO_ANSWER
from tests.sense.fake_nvml import FakeNvml, gpu

S = 1_000_000_000
JOB = frozenset({7})


class Stuck(FakeNvml):
    """Answers no call until it is let go."""

    def __init__(self) -> None:
        super().__init__(gpu())
        self.let_go = threading.Event()

    def _nvmlDeviceGetCount(self) -> int:
        self.let_go.wait(30)
        return super()._nvmlDeviceGetCount()


def settle(reader: GpuReader) -> None:
    """Waits for the reading under way, as nobody else does."""
    assert reader._thread is not None
    reader._thread.join(30)


def test_a_reading_is_taken_up_at_a_later_look() -> None:
    reader = GpuReader(0, FakeNvml(gpu()), {})
    reader.look(0, JOB)
    settle(reader)
    assert [sample.sensor for sample in reader.samples()] == ["gpu_static"]
    reader.look(1, JOB)
    assert [(sample.t_ns, sample.sensor) for sample in reader.samples()] == [(0, "gpu_static"), (0, "gpu")]
    assert reader.next_ns is not None
    assert 0.3 * S < reader.next_ns < S
    assert reader.cpu_ns > 0


def test_signals_are_not_for_the_thread_that_reads() -> None:
    blocked: list[set[signal.Signals | int]] = []

    class Asked(FakeNvml):
        def _nvmlDeviceGetCount(self) -> int:
            blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
            return super()._nvmlDeviceGetCount()

    reader = GpuReader(0, Asked(gpu()), {})
    reader.look(0, JOB)
    settle(reader)
    assert blocked[0] >= {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT}
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_while_the_driver_is_at_it_nothing_more_is_asked() -> None:
    stuck = Stuck()
    reader = GpuReader(0, stuck, {})
    for now_ns in (0, S, HANGS_NS + 1):
        reader.look(now_ns, JOB)
    assert stuck.asked.count("nvmlDeviceGetCount") == 1
    assert reader.gaps() == [NO_ANSWER]
    reader.close()  # at once: a hang is not waited for
    stuck.let_go.set()


def test_a_driver_that_comes_back_is_read_on() -> None:
    stuck = Stuck()
    reader = GpuReader(0, stuck, {})
    reader.look(0, JOB)
    reader.look(HANGS_NS + 1, JOB)
    stuck.let_go.set()
    settle(reader)
    reader.look(HANGS_NS + 2, JOB)
    assert reader.gaps() == []
    assert [sample.sensor for sample in reader.samples()] == ["gpu_static", "gpu"]


def test_the_last_reading_is_not_lost_at_the_end() -> None:
    reader = GpuReader(0, FakeNvml(gpu()), {})
    reader.look(0, JOB)
    reader.close()
    assert [sample.sensor for sample in reader.samples()] == ["gpu_static", "gpu"]


def test_a_reader_that_keeps_failing_gives_up_with_one_gap() -> None:
    reader = GpuReader(0, FakeNvml(gpu(total="much")), {"CUDA_VISIBLE_DEVICES": "0"})
    reader._open()
    broken = reader._gpus
    assert broken is not None
    broken.read = None  # type: ignore[method-assign, assignment]
    for now_s in range(2 * MOST_FAILURES):
        reader.look(2 * now_s * S, JOB)
        if reader._thread is not None:
            settle(reader)
    assert reader.next_ns is None
    assert [gap.what for gap in reader.gaps()] == ["gpu sensor"]
