"""Builds runs on an accelerator by hand, for the cases of findings. Simulated: no number is from hardware."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.accelerated import device_turn, runs_ahead
from ..analyse.replay import step_seconds
from ..analyse.verdict import Trust, decide
from ..model.derived import DeviceStepBreakdown, DeviceView, DriverView
from ..model.device import DeviceFacts, Kernels
from ..model.diagnosis import BatchCost, Diagnosis, HostLoad, Scenario
from ..model.loops import Loader
from .case import patient


def accelerated(
    beat: DeviceStepBreakdown | None,
    facts: DeviceFacts | None = None,
    driver: DriverView | None = None,
    wait_s: float = 0.0,
    loader: Loader | None = None,
    work: BatchCost | None = None,
) -> Diagnosis:
    """Two workers feed a loop whose device keeps this beat.

    Without a beat the device was seen by the driver only, and the loop's 20 ms belong to nobody known.
    """
    view = DeviceView(facts or DeviceFacts(), driver or DriverView(), beat)
    turn = device_turn(beat or DeviceStepBreakdown(0, 0.0, 0.0))
    turn = turn if beat is not None else replace(turn, idle=0.02)
    batch = work or BatchCost(1e-3)
    ahead = runs_ahead(view, wait_s)
    scene = Scenario((batch,), (turn,), workers=2, cores=4.0, ahead=ahead)
    base = patient(batch, turn, workers=2, cores=4.0, scenario=scene, loader=loader)
    host = HostLoad(
        4.0, job_cores=1.0, foreign_cores=0.0, accelerated=True, device_busy=view.driver.kernel_share
    )
    trust = Trust(400, 400 * step_seconds(scene), 0.05, 100, 0.02)
    verdict, causes = decide(scene, base.inputs, base.loader, host, trust, device=view)
    trainer = [replace(base.profile.processes[0], device="cuda")]
    profile = replace(base.profile, processes=trainer, device=view.facts)
    return replace(base, profile=profile, host=host, device=view, verdict=verdict, causes=causes)


def kernels(kind: str, share: float, precision: str = "", median_s: float = 1e-4) -> Kernels:
    """Simulated kernels that take this share of a step of 20 ms."""
    return Kernels(kind, share * 0.02, 100.0, median_s, precision)


# Simulated steps, in seconds: what the device's clock would say of each.
SATURATED = DeviceStepBreakdown(400, 0.02, 0.0195, launch_s=0.0005, host_s=0.008)
STARVED = DeviceStepBreakdown(400, 0.02, 0.004, input_s=0.0155, launch_s=0.0005, host_s=0.003)
LAUNCHING = DeviceStepBreakdown(400, 0.02, 0.006, launch_s=0.014, host_s=0.02)
SYNCING = DeviceStepBreakdown(400, 0.02, 0.013, launch_s=0.001, sync_s=0.006, host_s=0.012)
COPYING = DeviceStepBreakdown(400, 0.02, 0.011, transfer_s=0.009, host_s=0.006)
