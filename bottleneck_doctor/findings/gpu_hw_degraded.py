"""The device runs below what it can: heat, power or its link to the host hold it back.

## What it means
Clocks are lowered by the driver or the board itself, or the card talks to the host over fewer lanes or an
older generation than both ends can.

## Why it costs
Kernels that compute follow the clock in proportion. Copies follow the link.

## How it is measured
The driver's clock event reasons, clocks and link, read twice a second, and only while the device is busy:
idle devices lower both by design. Not yet proven on hardware.

## Thresholds
A tenth of at least 10 busy readings names heat, a hardware slowdown, a power brake, or a power limit that
somebody set below the card's own; and the clock is below 0.85 of the highest [catalogue F45]. The link is
below 0.9 of its width and generation (ours: any step down is at least a half).

## When this advice is wrong
A large device at full work is limited by its power as designed, and runs below its highest clock: that alone
is not said here. Limits and clocks are also lowered on purpose, to save power or to keep timings steady.
Some boards lower the link while it has nothing to do; readings of a busy device may still fall into such a
pause.

## Prediction
By replay. At worst nothing; at best in proportion to the clock. Likely: only matrix products, convolutions
and attention follow it, half of the kernels where their kinds are not known (ours). For the link, copies
shrink in proportion. Without the device's clock only the share that the driver saw busy is counted.

## References
NVML, "Clocks event reasons" and nvmlDeviceGetCurrPcieLinkWidth; nvidia-smi(1), "PERFORMANCE".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.step_costs import CLOCK_LOW, WORKING, clock_loss, held_down, is_clocked, scaled_device
from ..model.derived import DeviceStepBreakdown, DriverView
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import DRIVER, TENSOR_KINDS, kernel_share
from .parts.entry import COPYING, SATURATED, Case, Entry, accelerated, given

ID = "gpu-hw-degraded"
LINK_LOW = 0.9  # of its bandwidth (ours)
COMPUTE_SHARE = 0.5  # of kernels that follow the clock, where their kinds are not known (ours)
REASONS = {
    "power_cap": "a power limit below the card's own",
    "hw_slowdown": "a hardware slowdown",
    "sw_thermal": "heat (driver)",
    "hw_thermal": "heat (board)",
    "power_brake": "the power supply's brake",
}

COOL = Proposal(
    id="cooling-or-power",
    title="give the device the cooling and power that it was built for",
    fix=Fix("find out which limit it meets", "nvidia-smi -q -d PERFORMANCE,POWER,CLOCK,TEMPERATURE"),
    apply="admin",
    effort="days",
    risk="limits may be set on purpose: ask who runs the machine",
)
RESEAT = Proposal(
    id="reseat-pcie",
    title="let the card use all lanes of its slot",
    fix=Fix(
        "compare under load; then look at slot, riser and firmware",
        "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv -l 1",
    ),
    apply="admin",
    effort="days",
    risk="the machine must be opened",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when something other than idleness lowers clocks or link."""
    view, scenario = given(diagnosis.device), diagnosis.scenario
    driver = view.driver
    if scenario is None or driver.readings < WORKING or driver.clock_share is None:
        return Abstention(ID, f"{WORKING} readings of NVML's clocks while the device was busy")
    clock = clock_loss(view)
    slow = clock is not None and clock < CLOCK_LOW
    narrow = driver.link_share is not None and driver.link_share < LINK_LOW
    if not slow and not narrow:
        return None
    evidence = [*(_clocks(driver) if slow else []), *(_link(driver) if narrow else [])]
    proposals = []
    if slow:
        computing = kernel_share(view, TENSOR_KINDS) if view.facts.kernels else COMPUTE_SHARE
        lefts = (1.0, 1 - computing * (1 - driver.clock_share), driver.clock_share)
        changes = (scaled_device(scenario, diagnosis.host, left) for left in lefts)
        proposals.append(replace(COOL, factor=spread(scenario, *changes)))
    if narrow and driver.link_share is not None and is_clocked(scenario):
        proposals.append(replace(RESEAT, change=Change(copying=driver.link_share)))
    return Finding(ID, "device.throttled" if slow else "device.transfer", evidence, proposals)


def _clocks(driver: DriverView) -> list[Evidence]:
    found = [Evidence("clock of the multiprocessors while busy, of the highest", "clock_share",
                      driver.clock_share, DRIVER)]  # fmt: skip
    for name, share in held_down(driver).items():
        found.append(
            Evidence(f"share of busy readings that name {REASONS[name]}", f"{name}_share", share, DRIVER)
        )
    return found


def _link(driver: DriverView) -> list[Evidence]:
    return [
        Evidence("bandwidth of the link to the host, of the widest it has", "link_share", driver.link_share,
                 DRIVER),
        Evidence("generation of the link", "pcie_gen", driver.link_gen, DRIVER),
        Evidence("generation that both ends can", "pcie_gen_max", driver.link_gen_max, DRIVER),
        Evidence("lanes of the link", "pcie_width", driver.link_width, DRIVER),
        Evidence("lanes that both ends can", "pcie_width_max", driver.link_width_max, DRIVER),
    ]  # fmt: skip


WELL = DriverView(
    100, 0.99, 0.93, {"power_cap": 0.9}, power_limit_w=700.0, power_default_w=700.0, link_share=1.0
)
HOT = DriverView(100, 0.99, 0.5, {"sw_thermal": 0.8}, link_share=1.0)
CAPPED = DriverView(100, 0.99, 0.6, {"power_cap": 1.0}, power_limit_w=250.0, power_default_w=700.0)
AS_BUILT = DriverView(100, 0.99, 0.75, {"power_cap": 1.0}, power_limit_w=700.0, power_default_w=700.0)
NARROW = DriverView(100, 0.7, 0.95, link_share=0.25, link_gen=3.0, link_gen_max=4.0, link_width=8.0,
                    link_width_max=16.0)  # fmt: skip
BRIEF = DriverView(4, 0.99, 0.5, {"sw_thermal": 1.0})


def _case(beat: DeviceStepBreakdown | None, driver: DriverView) -> Diagnosis:
    return accelerated(beat, driver=driver)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("hot, at half its clock", _case(SATURATED, HOT), "fires", "cooling-or-power"),
        Case("a power limit set to a third", _case(SATURATED, CAPPED), "fires", "cooling-or-power"),
        Case("hot, by the driver's word alone", _case(None, HOT), "fires", "cooling-or-power"),
        Case("eight lanes of an older generation", _case(COPYING, NARROW), "fires", "reseat-pcie"),
        Case("at its power limit as designed", _case(SATURATED, AS_BUILT), "silent"),
        Case("a healthy device", _case(SATURATED, WELL), "silent"),
        Case("two seconds of readings", _case(SATURATED, BRIEF), "abstains"),
        Case("no driver was asked", _case(SATURATED, DriverView()), "abstains"),
    )


FINDING = Entry(ID, "device.throttled", examine, device=True, remedies=(COOL, RESEAT))
