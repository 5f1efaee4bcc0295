"""Slices of a GPU (MIG), as the real binding shows them."""

from __future__ import annotations

import pytest

from tests.sense.nvml.conftest import Ask

CUT = (
    "gpu name=A100 uuid=GPU-aa used=30e9 gpm=1 fan=1",
    "part name=A100-3g uuid=MIG-one slices=3 instance=1 used=1e9 total=20e9 sm=10",
    "process pid=1000 memory=1e9",
    "part name=A100-4g uuid=MIG-two slices=4 instance=2 used=2e9 total=40e9 sm=20",
    "process pid=2000 memory=2e9",
)


@pytest.mark.parametrize(
    ("wanted", "uuid", "slices"), [(None, "MIG-one", 3), ("0", "MIG-one", 3), ("MIG-two", "MIG-two", 4)]
)
def test_the_slice_that_cuda_would_use_is_read(ask: Ask, wanted: str | None, uuid: str, slices: int) -> None:
    environment = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    found = ask("gpus", *CUT, environment=environment, readings=11, pause_s=0.02)
    assert (found.static["gpu0_uuid"], found.static["gpu0_whole_uuid"]) == (uuid, "GPU-aa")
    assert (found.static["gpu0_mig"], found.static["gpu0_mig_slices"]) == (1, slices)
    own, last = slices == 3, found.readings[-1]
    assert last["gpu0_memory_used_bytes"] == (1e9 if own else 2e9)
    assert (last["gpu0_job_processes"], last["gpu0_foreign_processes"]) == ((1, 0) if own else (0, 1))
    assert last["gpu0_sm_active_share"] == (0.1 if own else 0.2)
    assert "gpu0_busy_share" not in last  # NVML has none of a GPU that is cut up
    assert found.gaps == []


def test_a_gpu_whose_slices_are_all_hidden_says_what_it_can(ask: Ask) -> None:
    found = ask("gpus", *CUT, "fail nvmlDeviceGetMigDeviceHandleByIndex 4")
    assert found.static["gpu0_uuid"] == "GPU-aa"
    assert [(gap[0], gap[1]) for gap in found.gaps] == [("gpu counters", "Not Supported: UtilizationRates")]
