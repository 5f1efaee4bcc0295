"""A GPU that the training leaves alone says nothing about the training, however busy others keep it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from tests.analyse.devices import device_run

NVML = {"busy_share": 0.99, "memory_used_bytes": 70.0, "memory_bytes": 80.0}


def test_somebody_elses_load_is_not_the_trainings() -> None:
    run = device_run(nvml=NVML)
    run = replace(run, device=None, processes=[replace(run.processes[0], device="cpu")])
    run = replace(run, machine=replace(run.machine, gpus=["H100"]))
    diagnosis = diagnose(run)
    for name in ("gpu_busy_fraction", "gpu_memory_fraction"):
        metric = diagnosis.metrics[name]
        assert (metric.value, metric.source) == (None, "the training uses no accelerator")
    assert diagnosis.verdict.bound != "gpu"
    assert diagnosis.verdict.gain["gpu"] is None


def test_the_device_that_is_used_is_the_one_that_is_read() -> None:
    metrics = diagnose(device_run(nvml=NVML)).metrics
    assert metrics["gpu_busy_fraction"].value == pytest.approx(0.99)
    assert metrics["gpu_memory_fraction"].value == 70 / 80
    run = device_run(nvml=NVML)
    assert run.device is not None
    elsewhere = diagnose(replace(run, device=replace(run.device, driver=1))).metrics
    assert elsewhere["gpu_busy_fraction"].value is None
