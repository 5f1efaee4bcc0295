"""The accelerator itself: clocks, links, other processes on it."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import is_clocked, scaled_device
from ..analyse.device import clock_loss, held_down
from ..analyse.predict import TRIFLE
from ..analyse.shares import ALL_BUT_NOISE, FEW_SAMPLES, MOST, NEARLY_ALL
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.device import DRIVER, TENSOR_KINDS, kernel_share
from .parts.entry import finding, given
from .parts.pricing import priced

# gpu-hw-degraded
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
        "compare under load; look at slot and riser",
        "nvidia-smi --query-gpu=pcie.link.width.current --format=csv",
    ),
    apply="admin",
    effort="days",
    risk="the machine must be opened",
)


@finding("device.throttled", COOL, RESEAT, device=True)
def gpu_hw_degraded(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when something other than idleness lowers clocks or link."""
    view, scenario = given(diagnosis.device), diagnosis.scenario
    driver = view.driver
    if scenario is None or driver.readings < FEW_SAMPLES or driver.clock_share is None:
        return f"{FEW_SAMPLES} readings of NVML's clocks while the device was busy"
    clock, link = clock_loss(view), driver.link_share
    evidence, proposals = [], []
    slow = clock is not None and clock < NEARLY_ALL
    if slow:
        text = "clock of the multiprocessors while busy, of the highest"
        evidence.append(Evidence(text, "clock_share", driver.clock_share, DRIVER))
        for name, share in held_down(driver).items():
            text = f"share of busy readings that name {REASONS[name]}"
            evidence.append(Evidence(text, f"{name}_share", share, DRIVER))
        computing = kernel_share(view, TENSOR_KINDS) if view.facts.kernels else MOST
        lefts = (1.0, 1 - computing * (1 - driver.clock_share), driver.clock_share)
        changes = (scaled_device(scenario, diagnosis.host, left) for left in lefts)
        proposals.append(priced(COOL, scenario, *changes))
    if link is not None and link < ALL_BUT_NOISE:
        evidence += [
            Evidence("bandwidth of the link to the host, of its widest", "link_share", link, DRIVER),
            Evidence("generation of the link", "pcie_gen", driver.link_gen, DRIVER),
            Evidence("generation that both ends support", "pcie_gen_max", driver.link_gen_max, DRIVER),
            Evidence("lanes of the link", "pcie_width", driver.link_width, DRIVER),
            Evidence("lanes that both ends support", "pcie_width_max", driver.link_width_max, DRIVER),
        ]
        if is_clocked(scenario):
            proposals.append(replace(RESEAT, change=Change(copying=link)))
    cause = "device.throttled" if slow else "device.transfer"
    return Finding("gpu-hw-degraded", cause, evidence, proposals) if evidence else None


# gpu-shared
ALONE = Proposal(
    id="exclusive-gpu",
    title="train on a device of its own",
    fix=Fix("choose a free device", "CUDA_VISIBLE_DEVICES=3 python train.py      # see nvidia-smi"),
    apply="admin",
    risk="the others may be yours, and needed",
)


@finding("device.shared", ALONE, device=True)
def gpu_shared(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when other processes use time or memory of the device."""
    driver, scenario = given(diagnosis.device).driver, diagnosis.scenario
    if scenario is None or driver.foreign_processes is None:
        return "the driver's list of processes on the device, the job's included"
    held = (driver.foreign_bytes or 0.0) / driver.memory_bytes if driver.memory_bytes else 0.0
    taken = 0.0 if driver.our_share is None else 1 - driver.our_share
    if max(held, taken) < TRIFLE:
        return None
    evidence = [
        Evidence("other processes on the device", "foreign_processes", driver.foreign_processes, DRIVER),
        Evidence("share of device memory that they hold", "foreign_memory_share", held, DRIVER),
    ]
    if driver.our_share is None or taken < TRIFLE:
        return Finding("gpu-shared", "device.shared", evidence)
    evidence.append(Evidence("share of device busy time that they take", "foreign_busy_share", taken, DRIVER))
    change = scaled_device(scenario, diagnosis.host, driver.our_share)
    return Finding("gpu-shared", "device.shared", evidence, [replace(ALONE, change=change)])
