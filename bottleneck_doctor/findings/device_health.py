"""The accelerator itself: clocks, links, other processes on it."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import is_clocked, scaled_device
from ..analyse.device import clock_loss, held_down
from ..analyse.shares import FEW_SAMPLES, NEARLY_ALL
from ..model.derived import DriverView
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.computing import DRIVER, TENSOR_KINDS, kernel_share
from .parts.entry import Entry, given, spread

# gpu-hw-degraded
LINK_LOW = 0.9  # of its bandwidth (chosen)
COMPUTE_SHARE = 0.5  # of kernels that follow the clock, where their kinds are not known (chosen)
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


def gpu_hw_degraded(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when something other than idleness lowers clocks or link."""
    view, scenario = given(diagnosis.device), diagnosis.scenario
    driver = view.driver
    if scenario is None or driver.readings < FEW_SAMPLES or driver.clock_share is None:
        return Abstention("gpu-hw-degraded", f"{FEW_SAMPLES} readings of NVML's clocks under load")
    clock = clock_loss(view)
    slow = clock is not None and clock < NEARLY_ALL
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
    return Finding("gpu-hw-degraded", "device.throttled" if slow else "device.transfer", evidence, proposals)


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
        Evidence("generation that both ends support", "pcie_gen_max", driver.link_gen_max, DRIVER),
        Evidence("lanes of the link", "pcie_width", driver.link_width, DRIVER),
        Evidence("lanes that both ends support", "pcie_width_max", driver.link_width_max, DRIVER),
    ]  # fmt: skip


# gpu-shared
STRANGERS = 0.05  # of the busy time, or of the memory (chosen)
ALONE = Proposal(
    id="exclusive-gpu",
    title="train on a device of its own",
    fix=Fix(
        "choose a free device, or ask the scheduler for one alone",
        "CUDA_VISIBLE_DEVICES=3 python train.py      # a device without other processes: see nvidia-smi",
    ),
    apply="admin",
    risk="the others may be yours, and needed",
)


def gpu_shared(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when other processes use time or memory of the device."""
    driver, scenario = given(diagnosis.device).driver, diagnosis.scenario
    if scenario is None or driver.foreign_processes is None:
        return Abstention("gpu-shared", "the driver's list of processes on the device, the job's included")
    held = (driver.foreign_bytes or 0.0) / driver.memory_bytes if driver.memory_bytes else 0.0
    taken = 0.0 if driver.our_share is None else 1 - driver.our_share
    if max(held, taken) < STRANGERS:
        return None
    evidence = [
        Evidence("other processes on the device", "foreign_processes", driver.foreign_processes, DRIVER),
        Evidence("share of device memory that they hold", "foreign_memory_share", held, DRIVER),
    ]
    if driver.our_share is None or taken < STRANGERS:
        return Finding("gpu-shared", "device.shared", evidence)
    evidence.append(Evidence("share of device busy time that they take", "foreign_busy_share", taken, DRIVER))
    change = scaled_device(scenario, diagnosis.host, driver.our_share)
    return Finding("gpu-shared", "device.shared", evidence, [replace(ALONE, change=change)])


FINDINGS = (
    Entry("device.throttled", gpu_hw_degraded, device=True, remedies=(COOL, RESEAT)),
    Entry("device.shared", gpu_shared, device=True, remedies=(ALONE,)),
)
