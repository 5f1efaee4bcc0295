"""The line about the accelerator, and operators by its time: in words, on every format."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.derived import HotOperator
from bottleneck_doctor.model.report import DeviceSummary, Evidence
from bottleneck_doctor.render import render
from tests.render.reports import TYPICAL

TOLD = [
    Evidence("busy", "gpu_busy_fraction", 0.31, "the accelerator's clock"),
    Evidence("kernels per step", "kernels", 812.0, "torch.profiler window"),
]
LINE = "Simulated · busy 31 % · kernels per step 812"


def test_the_device_stands_under_the_verdict() -> None:
    report = replace(TYPICAL, device=DeviceSummary("Simulated", "cuda", TOLD))
    for kind in ("terminal", "markdown"):
        drawn = render(report, kind, width=100)
        assert LINE in drawn
        assert "no GPU" not in drawn
        assert drawn.index(LINE) < drawn.index("data wait: decode")


def test_without_an_accelerator_there_is_no_such_line() -> None:
    assert "Simulated" not in render(TYPICAL, "terminal")
    assert "no GPU" in render(TYPICAL, "terminal")


def test_a_hostile_name_is_harmless() -> None:
    report = replace(TYPICAL, device=DeviceSummary("a\x1b[31m\nb", "cuda", TOLD))
    assert "\x1b" not in render(report, "terminal")


def test_operators_of_a_device_are_told_by_its_time() -> None:
    report = replace(TYPICAL, operators=[HotOperator("aten::mm", 3.0, 1e-5, 2e-3, 1.0)])
    drawn = render(report, "terminal", width=100)
    assert "time of the accelerator in one profiled step, 2 ms in all" in drawn
