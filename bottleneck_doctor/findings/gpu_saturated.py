"""The device computes nearly all the time, and two witnesses agree: this is what training looks like.

## What it means
Good news. Data, copies and the loop keep up, and the device has work on most of its multiprocessors.

## Why it costs
It does not: faster storage, more workers or fewer readbacks would change nothing. What is left is less
arithmetic (another model, lower precision), a faster device, or more of them.

## How it is measured
The device's clock says for which share of the step kernels ran. Since one small kernel counts there as much
as a large one, a second witness is asked: power drawn while busy against the limit, or the share of
multiprocessors with work. Not yet proven on hardware.

## Thresholds
Busy for more than 0.9 of the step, and a second witness above 0.8 [catalogue F44]; the verdict's cause is
the device's own computing.

## When this advice is wrong
Busy is not efficient: kernels that wait for memory, products in float32 or recomputed activations also fill
the step. The evidence says which part of the device's peak arithmetic is used, where that is known. Findings
about those stand beside this one, and come first. Power is a weak witness where somebody lowered its limit.

## Prediction
None. A faster device is predicted by trying it, more devices by a run on two.

## Remedies
None is needed.

## References
NVML, nvmlDeviceGetUtilizationRates and nvmlDeviceGetPowerUsage; NVIDIA DCGM, "Profiling metrics", on the
difference of utilisation and SM activity.
"""

from __future__ import annotations

from ..model.derived import DeviceStepBreakdown, DriverView
from ..model.device import DeviceFacts
from ..model.diagnosis import Abstention, Diagnosis, Finding
from ..model.report import Evidence
from .parts.computing import ACTIVE, CLOCK, DRIVER, beat_of, of_step
from .parts.entry import LAUNCHING, SATURATED, Case, Entry, accelerated, device_step, given

ID = "gpu-saturated"
BUSY_SHARE = 0.9  # of the step [catalogue F44]
WITNESS = 0.8  # of the power limit, or of the multiprocessors [catalogue F44]


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the device sets the pace and a second witness says that it works hard."""
    view = given(diagnosis.device)
    busy = of_step(diagnosis, beat_of(diagnosis).busy_s)
    if busy < BUSY_SHARE or diagnosis.verdict.cause != "device.compute":
        return None
    power, filled = view.driver.power_share, view.facts.sm_active_share
    known = [one for one in (power, filled) if one is not None]
    if not known:
        return Abstention(ID, "a second witness: power drawn, or the share of multiprocessors with work")
    if max(known) < WITNESS or (filled is not None and filled < WITNESS):
        return None
    evidence = [Evidence("share of the step in which the device is busy", "gpu_busy_fraction", busy, CLOCK)]
    if power is not None:
        evidence.append(Evidence("power drawn while busy, of the limit", "power_share", power, DRIVER))
    if filled is not None:
        evidence.append(
            Evidence("share of multiprocessors with work while busy", "sm_active_share", filled, ACTIVE)
        )
    mfu = diagnosis.metrics.get("mfu")
    if mfu is not None and mfu.low is not None:
        evidence.append(Evidence("of the device's peak arithmetic, at least", "mfu", mfu.low, mfu.source))
    return Finding(ID, "device.compute", evidence)


def _case(beat: DeviceStepBreakdown | None, power: float | None, filled: float | None = None) -> Diagnosis:
    return accelerated(beat, DeviceFacts(sm_active_share=filled), DriverView(100, 0.99, power_share=power))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("busy, and at its power limit", _case(SATURATED, 0.95), "fires"),
        Case("busy, and all multiprocessors with it", _case(SATURATED, None, 0.92), "fires"),
        Case("99 % by the driver at 40 % of the power", _case(SATURATED, 0.4), "silent"),
        Case("busy with a third of the multiprocessors", _case(SATURATED, 0.9, 0.33), "silent"),
        Case("the loop sets the pace", _case(LAUNCHING, 0.5), "silent"),
        Case("no second witness", _case(SATURATED, None), "abstains"),
        Case("only the driver was asked", _case(None, 0.95), "abstains"),
    )


FINDING = Entry(ID, "device.compute", examine, device=True, needs=(device_step,))
