"""GPUs by their library: which are ours, what they are asked, which vendors are known."""

from __future__ import annotations

import itertools
import signal
import sys
import threading

import pytest

from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense import capabilities
from bottleneck_doctor.sense.gpus import HANGS_NS, MOST_FAILURES, SLOW_EVERY, GpuReader, Gpus
from bottleneck_doctor.sense.nvml import (
    NO_ANSWER,
    NO_NVML,
    list_gpu_names,
    load_nvml,
    missed,
    unknown_to_nvml,
    visible_gpus,
)
from bottleneck_doctor.sense.schedule import CALM_AFTER_NS, CALM_PERIOD_NS, PERIOD_NS, Track
from tests.sense.conftest import Plant
from tests.sense.fake_nvml import FakeNvml, gpu


def test_a_reading_is_named_by_cudas_number() -> None:
    nvml = FakeNvml(gpu("GPU-aa", busy=5), gpu("GPU-bb", busy=90))
    gpus = Gpus(nvml, {"CUDA_VISIBLE_DEVICES": "1,0"})
    values = gpus.read()
    assert (values["gpu0_busy_share"], values["gpu1_busy_share"]) == (0.9, 0.05)
    assert (values["gpu0_memory_used_bytes"], values["gpu0_memory_bytes"]) == (20, 80)
    assert (values["gpu0_power_w"], values["gpu0_power_limit_w"]) == (350.0, 700.0)
    assert (values["gpu0_sm_clock_mhz"], values["gpu0_pcie_gen"], values["gpu0_pcie_width"]) == (1200, 3, 8)
    assert gpus.gaps() == []


def test_what_does_not_change_is_told_apart() -> None:
    values = Gpus(FakeNvml(gpu("GPU-aa", "H100")), {}).static()
    assert (values["gpu0_name"], values["gpu0_uuid"], values["gpu0_nvml_index"]) == ("H100", "GPU-aa", 0)
    assert (values["gpu0_pcie_gen_max"], values["gpu0_pcie_width_max"]) == (5, 16)
    assert (values["gpu0_sm_clock_max_mhz"], values["gpu0_mig"]) == (1980, 0)
    assert values["gpu0_compute_capability"] == "9.0"
    assert values["gpu0_power_default_w"] == 700.0


def test_a_gpu_without_a_power_limit_of_its_own_is_no_gap() -> None:
    nvml = FakeNvml(gpu())
    nvml.broken.add("nvmlDeviceGetPowerManagementDefaultLimit")
    gpus = Gpus(nvml, {})
    assert "gpu0_power_default_w" not in gpus.static()
    assert gpus.gaps() == []


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0, set()),
        (0x1, {"idle"}),
        (0x4 | 0x40, {"power_cap", "hw_thermal"}),
        (0x88, {"hw_slowdown", "power_brake"}),
    ],
)
@pytest.mark.parametrize("without", ["", "nvmlDeviceGetCurrentClocksEventReasons"])
def test_clock_reasons_are_named_by_new_and_old_bindings(bits: int, names: set[str], without: str) -> None:
    values = Gpus(FakeNvml(gpu(reasons=bits), without=(without,)), {}).read()
    assert {
        name.removeprefix("gpu0_clocks_") for name, value in values.items() if "clocks_" in name and value
    } == names
    assert values["gpu0_clock_reasons"] == bits


def test_what_changes_slowly_is_asked_rarely_and_no_call_sleeps_in_the_driver() -> None:
    nvml = FakeNvml(gpu())
    gpus = Gpus(nvml, {})
    for _ in range(2 * SLOW_EVERY):
        gpus.read()
    assert nvml.asked.count("nvmlDeviceGetPcieReplayCounter") == 2
    assert "nvmlDeviceGetPcieThroughput" not in nvml.asked  # 20 ms each
    assert nvml.asked.count("nvmlDeviceGetUtilizationRates") == 2 * SLOW_EVERY


def test_processes_outside_of_the_job_are_counted_apart() -> None:
    shared = gpu(processes=[(7, 10), (8, 5), (9, None)], busy_processes=[(7, 60), (8, 30)])
    values = Gpus(FakeNvml(shared), {}).read(job=frozenset({7}))
    assert (values["gpu0_job_processes"], values["gpu0_foreign_processes"]) == (1, 2)
    assert (values["gpu0_job_memory_bytes"], values["gpu0_foreign_memory_bytes"]) == (10, 5)
    assert (values["gpu0_job_busy_share"], values["gpu0_foreign_busy_share"]) == (0.6, 0.3)


def test_nobody_having_computed_lately_is_no_gap() -> None:
    gpus = Gpus(FakeNvml(gpu(processes=[(7, 10)])), {})
    assert "gpu0_job_busy_share" not in gpus.read()
    assert gpus.gaps() == []


def test_a_slice_reports_its_own_memory_and_is_not_asked_for_utilisation() -> None:
    part = gpu("MIG-b1", "H100 MIG 3g.40gb", slices=3, used=1, total=40)
    nvml = FakeNvml(gpu("GPU-bb", parts=[part]))
    nvml.broken.add("nvmlDeviceGetUtilizationRates")
    gpus = Gpus(nvml, {"CUDA_VISIBLE_DEVICES": "MIG-b1"})
    static, values = gpus.static(), gpus.read()
    assert (static["gpu0_mig"], static["gpu0_mig_slices"], static["gpu0_uuid"]) == (1, 3, "MIG-b1")
    assert (values["gpu0_memory_used_bytes"], values["gpu0_memory_bytes"]) == (1, 40)
    assert "gpu0_busy_share" not in values
    assert gpus.gaps() == []


def test_a_call_that_fails_costs_its_own_value_and_one_gap() -> None:
    nvml = FakeNvml(gpu(), without=("nvmlDeviceGetPcieReplayCounter",))
    nvml.broken.add("nvmlDeviceGetPowerUsage")
    gpus = Gpus(nvml, {})
    for _ in range(3):
        values = gpus.read()
    assert "gpu0_power_w" not in values
    assert values["gpu0_busy_share"] == 0.5
    assert sorted(gap.why for gap in gpus.gaps()) == [
        "Not Supported: PowerUsage",
        "this NVML binding does not know the call: PcieReplayCounter",
    ]


def test_gpus_that_fall_silent_midway_are_given_up() -> None:
    nvml = FakeNvml(gpu("GPU-aa"), gpu("GPU-bb"))
    gpus = Gpus(nvml, {})
    gpus.read()
    nvml.broken |= set(nvml.asked)
    for _ in range(MOST_FAILURES):
        assert gpus.read() == {}
    asked = len(nvml.asked)
    gpus.read()
    assert len(nvml.asked) == asked
    said = {gap.why for gap in gpus.gaps()}
    assert {f"H100 (cuda:{place}) stopped answering NVML" for place in (0, 1)} <= said


def test_closing_a_driver_that_is_gone_is_harmless() -> None:
    nvml = FakeNvml(gpu())
    nvml.broken.add("nvmlShutdown")
    Gpus(nvml, {}).close()
    assert "nvmlShutdown" in nvml.asked


ORDERED = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def chosen(nvml: FakeNvml, wanted: str | None) -> list[int]:
    """NVML indices of the visible GPUs."""
    environment = ORDERED if wanted is None else {**ORDERED, "CUDA_VISIBLE_DEVICES": wanted}
    return [found.index for found in visible_gpus(nvml, environment)[0]]


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 ", [1]),
        ("", []),
        ("-1", []),
        ("0,-1,2", [0]),
        ("0,9,2", [0]),
        ("GPU-cc", [2]),
        ("GPU-aa,1", [0, 1]),
        ("GPU-", []),
        ("GPU-zz", []),
        ("nonsense", []),
        ("MIG-b1", [1]),
        ("MIG-zz,0", []),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(wanted: str | None, indices: list[int]) -> None:
    sliced = gpu("GPU-bb", parts=[gpu("MIG-b1", "H100 MIG 3g.40gb", slices=3)])
    assert chosen(FakeNvml(gpu("GPU-aa1"), sliced, gpu("GPU-cc1")), wanted) == indices


def test_a_slice_keeps_its_own_name_and_handle() -> None:
    nvml = FakeNvml(gpu("GPU-bb", parts=[gpu("MIG-b1", "H100 MIG 3g.40gb", slices=3)]))
    found, _ = visible_gpus(nvml, {"CUDA_VISIBLE_DEVICES": "MIG-b1"})
    assert [(one.name, one.part["uuid"], one.handle["uuid"]) for one in found] == [
        ("H100 MIG 3g.40gb", "MIG-b1", "GPU-bb")
    ]


@pytest.mark.parametrize(
    ("environment", "warned"),
    [
        ({}, True),
        ({"CUDA_VISIBLE_DEVICES": "1"}, True),
        (ORDERED, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, False),
    ],
)
def test_numbers_of_unlike_gpus_are_doubted_unless_their_order_is_set(
    environment: dict[str, str], warned: bool
) -> None:
    _, gaps = visible_gpus(FakeNvml(gpu("GPU-a", "H100"), gpu("GPU-b", "T4")), environment)
    assert [gap.what for gap in gaps] == (["which gpu is which"] if warned else [])


def test_a_lost_gpu_is_a_gap_and_the_others_are_kept() -> None:
    nvml = FakeNvml(gpu("GPU-a"), gpu("GPU-b"))
    del nvml.gpus[1]["name"]
    found, gaps = visible_gpus(nvml, {})
    assert [one.index for one in found] == [0]
    assert "GPU 1" in gaps[0].why


@pytest.mark.parametrize(("expected", "count"), [(True, 1), (False, 0)])
def test_without_nvml_a_gap_is_named_only_where_a_driver_is(
    expected: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("bottleneck_doctor.sense.nvml.gpu_expected", lambda _: expected)
    names, gaps = list_gpu_names()
    assert (names, len(gaps)) == ([], count)


def test_a_missing_binding_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = load_nvml()
    assert isinstance(found, Gap)
    assert found.do == "pip install nvidia-ml-py"


BARE = f"where there is one: {NO_NVML}"
NO_LIBRARY = Gap("gpu counters", "NVML does not start: no library", "install the NVIDIA driver")


@pytest.mark.parametrize(
    ("files", "why", "do"),
    [
        ({"dev/nvidiactl": ""}, NO_LIBRARY.why, NO_LIBRARY.do),
        ({"dev/nvidiactl": "", "dev/kfd": ""}, NO_LIBRARY.why, NO_LIBRARY.do),
        ({"dev/kfd": ""}, "of the AMD GPU it knows no utilisation", ""),
    ],
)
def test_a_run_beside_an_accelerator_says_what_it_lacks(
    plant: Plant, files: dict[str, str], why: str, do: str
) -> None:
    (gap,) = missed(NO_LIBRARY, plant(files))
    assert why in gap.why
    assert gap.do == do


def test_a_run_without_any_accelerator_misses_nothing(plant: Plant) -> None:
    assert missed(NO_LIBRARY, plant({"sys/class/drm/card0/device/vendor": "0x8086\n"})) == []


def test_on_a_mac_the_gpu_is_apples() -> None:
    (why,) = unknown_to_nvml(platform="darwin").values()
    assert "Apple GPU" in why
    assert "through torch" not in why  # it has no clock that bdoc reads


@pytest.mark.parametrize(
    ("files", "detail", "do"),
    [
        ({"dev/kfd": ""}, "of the AMD GPU it knows no", ""),
        ({"sys/class/drm/card0/device/vendor": "0x8086\n"}, "of the Intel GPU it knows no", ""),
        (
            {"sys/class/drm/card0/device/vendor": "0x1a03\n"},
            "no accelerator is in sight",
            f"where there is one: {NO_NVML}",
        ),
        ({"dev/nvidiactl": ""}, "no library", NO_LIBRARY.do),
    ],
)
def test_env_says_so_too(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], detail: str, do: str
) -> None:
    monkeypatch.setattr(capabilities, "find_gpus", lambda: NO_LIBRARY)
    found = next(one for one in capabilities.list_capabilities(plant(files)) if one.name == "gpu counters")
    assert not found.available
    assert detail in found.detail
    assert found.do == do


HOUR_NS = 3_600_000_000_000


def follow(track: Track, until_ns: int, per_reading: int = 1, cost_ns: int = 0) -> list[int]:
    """Reads whenever the track asks, in fake time; the instants of the readings."""
    times = []
    while track.next_ns < until_ns:
        now_ns = track.next_ns
        times.append(now_ns)
        track.keep(now_ns, [Sample(now_ns, "fake", {})] * per_reading, cost_ns)
    return times


def steps(times: list[int]) -> set[int]:
    """The different distances between neighbours."""
    return {later - sooner for sooner, later in itertools.pairwise(times)}


def test_it_reads_twice_a_second_and_after_two_minutes_every_other_second() -> None:
    track = Track(0)
    brisk, calm = follow(track, CALM_AFTER_NS), follow(track, 2 * CALM_AFTER_NS)
    assert steps(brisk) == {PERIOD_NS}
    assert steps(calm) == {CALM_PERIOD_NS}


def test_a_long_run_stays_bounded_and_evenly_spread() -> None:
    track = Track(0, most=200)
    follow(track, 24 * HOUR_NS, per_reading=3)
    times = sorted({sample.t_ns for sample in track.samples()})
    assert 50 < len(track.samples()) <= 200
    assert times[0] == 0
    assert times[-1] > 23 * HOUR_NS
    late = steps([t for t in times if t > HOUR_NS])
    assert max(late) <= 2 * min(late)


def test_a_dear_sensor_reads_less_often() -> None:
    assert len(follow(Track(0), CALM_AFTER_NS, cost_ns=50_000_000)) < len(follow(Track(0), CALM_AFTER_NS)) / 5


def test_an_empty_reading_is_not_kept_but_the_next_is_planned() -> None:
    track = Track(0)
    track.keep(0, [], 0)
    assert track.samples() == []
    assert not track.is_due(PERIOD_NS - 1)
    assert track.is_due(PERIOD_NS)


def test_a_roaming_track_keeps_the_pace_and_no_beat() -> None:
    """Readings fall evenly into every phase of a step that lasts just as long as their period."""
    times = follow(Track(0, roaming=True), CALM_AFTER_NS)
    assert len(times) == pytest.approx(CALM_AFTER_NS / PERIOD_NS, rel=0.02)
    assert min(steps(times)) > 0.6 * PERIOD_NS
    phases = [sum(1 for t in times if t % PERIOD_NS * 4 // PERIOD_NS == quarter) for quarter in range(4)]
    assert min(phases) > 0.2 * len(times)


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
