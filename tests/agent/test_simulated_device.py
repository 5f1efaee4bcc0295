"""From the agent's window to the verdict, on a simulated device: who left it without work is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.model.profile import Profile
from tests.agent.simulated_device import trained
from tests.agent.watching import profile_of

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone]

STEPS = (160, 640)  # a look costs a starved host more: there it takes a longer run until enough are afforded
SATURATED = "[Device.issue(0.01) for _ in range(2)]"
STARVED = "Device.issue(0.004)"
LAUNCHING = "[(Device.issue(0.0002), time.sleep(0.001)) for _ in range(10)]"
SYNCING = "Device.issue(0.006); noted(Device.wait); time.sleep(0.012)"
COPYING = "Device.issue(0.006); Device.copy(0.01)"


@pytest.mark.parametrize(
    ("step", "fetch", "part", "bound", "cause"),
    [
        (SATURATED, 0.001, "busy_s", "gpu", "device.compute"),
        (STARVED, 0.012, "input_s", "latency", "input.wait"),
        (LAUNCHING, 0.0, "launch_s", "cpu", "host.launch"),
        (SYNCING, 0.0, "sync_s", "cpu", "host.sync"),
        (COPYING, 0.0, "transfer_s", "gpu", "device.transfer"),
    ],
)
def test_who_leaves_the_device_without_work(
    tmp_path: Path, step: str, fetch: float, part: str, bound: str, cause: str
) -> None:
    profile = watched_long_enough(tmp_path, step, fetch)
    assert profile.device is not None, profile.gaps
    window = profile.device.window
    assert window is not None, profile.gaps
    assert getattr(window, part) > 0.4 * window.wall_s
    verdict = diagnose(profile).verdict
    assert (verdict.bound, verdict.cause) == (bound, cause)


def watched_long_enough(folder: Path, step: str, fetch: float) -> Profile:
    """The first run in which the device's own clock was read often enough to be judged by, or the longest."""
    for steps in STEPS:
        (folder / str(steps)).mkdir()
        told = trained(folder / str(steps), step, fetch, steps)
        assert (told.status, told.stderr) == (0, "")
        profile = profile_of(told)
        if diagnose(profile).metrics["exposed_data_wait_fraction"].n:
            break
    return profile
