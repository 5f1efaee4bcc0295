"""Devices that are not NVIDIA's, or that say less: what is still known, and what is said to be missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.device import DeviceFacts
from bottleneck_doctor.model.profile import Profile
from tests.analyse.devices import device_run
from tests.analyse.runs import run_of

MS = 1e-3


def on(kind: str, **traits: float) -> Profile:
    """A run of which nothing is known but that it computes on such a device."""
    base = run_of(**{"workers": 2, "cpu": MS, "idle": 20 * MS} | traits)
    return replace(base, processes=[replace(base.processes[0], device=kind)])


def gaps_of(profile: Profile) -> dict[str, str]:
    return {gap.what: gap.why for gap in diagnose(profile).quality.gaps}


def test_a_kind_without_marks_is_still_an_accelerator():
    diagnosis = diagnose(on("mps"))
    assert (diagnosis.verdict.bound, diagnosis.verdict.confidence) == ("gpu", "low")
    assert "was not measured" in diagnosis.verdict.summary
    assert "no timed marks" in gaps_of(on("mps"))["the accelerator's own clock"]


def test_what_the_host_says_holds_on_any_device():
    starved = diagnose(on("mps", cpu=60 * MS, idle=5 * MS, step=30 * MS)).verdict
    assert (starved.bound, starved.cause) == ("cpu", "input.preprocess")
    assert starved.confidence != "high"


@pytest.mark.parametrize("kind", ["mps", "xpu", "hpu"])
def test_nothing_of_the_drivers_gpus_is_taken_for_it(kind):
    run = on(kind)
    run.series.values["gpu0_busy_share"] = [0.9] * len(run.series.t)
    metrics = diagnose(run).metrics
    for name in ("gpu_busy_fraction", "gpu_memory_fraction", "exposed_data_wait_fraction"):
        assert metrics[name].value is None
        assert metrics[name].source, "it says why"


def test_an_intel_device_with_marks_is_judged_like_any_other():
    verdict = diagnose(device_run(kind="xpu", busy_s=19.5 * MS, launch_s=0.5 * MS, host_s=8 * MS)).verdict
    assert (verdict.cause, verdict.confidence) == ("device.compute", "high")


def test_a_clock_that_refused_says_why():
    run = replace(on("cuda"), device=DeviceFacts(pid=1, loader="1:1", silent="RuntimeError: no events"))
    assert gaps_of(run)["the accelerator's own clock"] == "RuntimeError: no events"
    assert "RuntimeError" in diagnose(run).metrics["exposed_data_wait_fraction"].source


def test_a_training_on_the_cpu_is_not_told_about_a_gpu_that_stands_by():
    run = run_of(workers=2, cpu=MS, compute=20 * MS)
    run.series.values["gpu0_busy_share"] = [0.9] * len(run.series.t)
    report = write_up(run)
    assert report.metrics["gpu_busy_fraction"].value is None
    assert report.device is None
    assert not [gap for gap in report.quality.gaps if "accelerator" in gap.what]


def test_the_second_of_several_gpus_is_read_where_the_training_is_there():
    run = device_run(nvml={"busy_share": 0.1, "memory_used_bytes": 1.0, "memory_bytes": 10.0})
    readings = {"busy_share": 0.9, "memory_used_bytes": 8.0, "memory_bytes": 10.0}
    for name, value in readings.items():
        run.series.values[f"gpu1_{name}"] = [value] * len(run.series.t)
    metrics = diagnose(replace(run, device=replace(run.device, driver=1))).metrics
    assert metrics["gpu_busy_fraction"].value == pytest.approx(0.9)
    assert metrics["gpu_memory_fraction"].value == pytest.approx(0.8)
