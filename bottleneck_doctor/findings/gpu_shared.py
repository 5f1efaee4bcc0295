"""Other processes compute on the same device.

## What it means
The device takes turns between processes. Another training, a notebook that was left open, or a display uses
its time and its memory.

## Why it costs
While strangers' kernels run, ours wait: a process that computes half of the time leaves half. Memory that
they hold is missing here.

## How it is measured
The driver's list of processes with memory and utilisation, those outside of the job's process tree being
strangers. Not yet proven on hardware.

## Thresholds
Strangers take 0.05 of what all processes keep busy, or of the device's memory [catalogue F46].

## When this advice is wrong
In a container the driver numbers processes as the host does: where it names none of ours, they cannot be
told from strangers, and nothing is said. The strangers may be yours: a server that scores samples for this
training, or another rank. Slices of a partitioned device (MIG) have multiprocessors of their own, and do not
take turns.

## Prediction
By replay with our part of the busy time; without the device's clock only for the share that the driver saw
busy. Where strangers hold memory alone, none.

## References
NVML, nvmlDeviceGetProcessUtilization; CUDA C++ Programming Guide, "Compute modes"; NVIDIA, "Multi-Process
Service".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.step_costs import scaled_device
from ..model.derived import DeviceStepBreakdown, DriverView
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.computing import DRIVER
from .parts.entry import SATURATED, Case, Entry, accelerated, given

ID = "gpu-shared"
STRANGERS = 0.05  # of the busy time, or of the memory [catalogue F46]
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


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when strangers take time or memory of the device."""
    driver, scenario = given(diagnosis.device).driver, diagnosis.scenario
    if scenario is None or driver.foreign_processes is None:
        return Abstention(ID, "a list of the device's processes in which the driver names ours")
    held = (driver.foreign_bytes or 0.0) / driver.memory_bytes if driver.memory_bytes else 0.0
    taken = 0.0 if driver.our_share is None else 1 - driver.our_share
    if max(held, taken) < STRANGERS:
        return None
    evidence = [
        Evidence("processes of others on the device", "foreign_processes", driver.foreign_processes, DRIVER),
        Evidence("share of its memory that they hold", "foreign_memory_share", held, DRIVER),
    ]
    if driver.our_share is None or taken < STRANGERS:
        return Finding(ID, "device.shared", evidence)
    evidence.append(Evidence("share of its busy time that they take", "foreign_busy_share", taken, DRIVER))
    change = scaled_device(scenario, diagnosis.host, driver.our_share)
    return Finding(ID, "device.shared", evidence, [replace(ALONE, change=change)])


GIB = 2.0**30  # bytes, for the cases


def _case(
    beat: DeviceStepBreakdown | None, ours: float | None, processes: float | None, held: float = 0.0
) -> Diagnosis:
    driver = DriverView(100, 0.99, foreign_processes=processes, foreign_bytes=held, memory_bytes=80 * GIB,
                        our_share=ours)  # fmt: skip
    return accelerated(beat, driver=driver)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case(
            "a neighbour takes half of the time",
            _case(SATURATED, 0.5, 1.0, 9 * GIB),
            "fires",
            "exclusive-gpu",
        ),
        Case(
            "the same, by the driver's word alone", _case(None, 0.5, 1.0, 9 * GIB), "fires", "exclusive-gpu"
        ),
        Case("an open notebook holds memory", _case(SATURATED, None, 1.0, 20 * GIB), "fires"),
        Case("nobody else", _case(SATURATED, 1.0, 0.0), "silent"),
        Case("a display", _case(SATURATED, 0.99, 1.0, GIB), "silent"),
        Case("process numbers of the host", _case(SATURATED, None, None), "abstains"),
    )


FINDING = Entry(ID, "device.shared", examine, device=True, remedies=(ALONE,))
