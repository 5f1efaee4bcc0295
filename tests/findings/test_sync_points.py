"""Values that are read back less often leave the loop its own work, and no more than that is promised."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.predict import gain
from bottleneck_doctor.findings.device_compute import sync_points
from bottleneck_doctor.model.device import DeviceCopy, DeviceFacts, DeviceSync, DeviceWindow
from bottleneck_doctor.model.diagnosis import Finding
from tests.findings.builders import accelerator_run

COPY = DeviceCopy(128.0, 1.0, 1e-4, 1e-4, pinned=False, blocking=True)  # it waits for the device as well


@pytest.mark.parametrize("host_s", [0.006, 0.010, 0.0135])
@pytest.mark.parametrize("copies", [[], [COPY]], ids=["alone", "beside a copy that waits"])
def test_no_step_gets_shorter_than_the_loops_own_work(host_s: float, copies: list[DeviceCopy]) -> None:
    busy_s, input_s = 0.004, 0.0003
    beat = DeviceWindow(400, busy_s + host_s + input_s, busy_s, input_s, sync_s=host_s, host_s=host_s)
    read = DeviceSync("item", 1.0, 0.003, host_s, "train.py", 4)
    diagnosis = accelerator_run(beat, DeviceFacts(syncs=[read], copies=copies), wait_s=input_s)
    found = sync_points.ask(diagnosis)
    assert isinstance(found, Finding)
    assert diagnosis.scenario is not None
    change = found.proposals[0].change
    assert change is not None
    promised = gain(diagnosis.scenario, change)
    assert 1.2 < promised <= 1.05 * beat.wall_s / max(host_s, busy_s)
