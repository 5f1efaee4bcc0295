"""Accelerators that NVML does not know are named, not passed over."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense import capabilities
from bottleneck_doctor.sense.nvml import NO_NVML, missed, unknown_to_nvml
from tests.sense.conftest import Plant

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
