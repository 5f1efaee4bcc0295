"""GPUs are read through NVML, and every failure costs no more than the value that failed."""

from __future__ import annotations

import pytest

from bottleneck_doctor.sense.gpus import MOST_FAILURES, SLOW_EVERY, Gpus
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
