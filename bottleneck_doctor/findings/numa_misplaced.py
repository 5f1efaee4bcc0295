"""The process computes on one node of the machine, and much of its memory lies on another.

## What it means
A machine with several sockets has several memories. The scheduler moved the threads, or the memory was
touched first by a thread elsewhere.

## Why it costs
Memory of another node is slower to reach, by half and more, and the link between nodes is shared.

## How it is measured
Once, some seconds into the run: the nodes of the largest process's pages, and the node of the core that its
main thread was running on.

## Thresholds
More than 30 % of the pages on other nodes, on a machine that has several; and the run is limited by the CPU.

## When this advice is wrong
Pages are counted, not accesses: what lies afar may be rarely used. Threads that deliberately span the nodes
have no home. One look may catch the thread on a visit. Virtual machines hide their nodes.

## Prediction
A range from nothing to 30 % of the CPU's time spared (ours): it was not measured here, and could not be on
machines with one node.

## References
numactl(8); proc(5), "numa_maps"; PyTorch Performance Tuning Guide, "Utilize Non-Uniform Memory Access".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Series
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import readings, spread
from .parts.entry import Case, Entry, patient

ID = "numa-misplaced"
REMOTE = 0.3  # of the pages [catalogue F58]
CPU_LEFT = (1.0, 0.93, 0.77)  # of the CPU's time: nothing spared, some, 30 % faster [catalogue F58, ours]

BIND = Proposal(
    id="numa-bind",
    title="keep threads and memory of each process on one node",
    fix=Fix("bind each process, one per node", "numactl --cpunodebind=0 --membind=0 python train.py"),
    apply="env",
    risk="a process that needs more cores or memory than a node has becomes slower",
    basis="bound",
    treatments=(Treatment("numa"),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires on a CPU-bound run with much of its memory elsewhere."""
    nodes, scenario = diagnosis.profile.machine.numa_nodes or 1, diagnosis.scenario
    if nodes < 2 or scenario is None or diagnosis.verdict.bound != "cpu":
        return None
    seen = readings(diagnosis.profile.series, "numa_remote_share")
    if not seen:
        return Abstention(ID, "the nodes of the job's pages (numa_maps)")
    remote = seen[-1][1]
    if remote <= REMOTE:
        return None
    evidence = [
        Evidence("share of the process's pages on other nodes", "numa_remote_share", remote, "numa_maps"),
        Evidence("nodes of the machine", "numa_nodes", float(nodes), "sysfs"),
    ]
    most = gain(scenario, Change(cpu=1 - remote, collate=1 - remote, compute=1 - remote))
    proposal = replace(
        BIND,
        factor=spread(scenario, *(Change(cpu=left, collate=left, compute=left) for left in CPU_LEFT)),
        most=most,
    )
    return Finding(ID, diagnosis.verdict.cause, evidence, [proposal])


MODEL = StepCost(0.01)


def _case(remote: float | None, nodes: int = 2, cost: StepCost = MODEL) -> Diagnosis:
    """A model that computes on the CPU of a machine with two sockets."""
    base = patient(BatchCost(1e-4), cost)
    machine = replace(base.profile.machine, numa_nodes=nodes)
    series = Series([6.0], {"numa_remote_share": [remote]}) if remote is not None else Series()
    return replace(base, profile=replace(base.profile, machine=machine, series=series))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("half of the memory is elsewhere", _case(0.5), "fires", "numa-bind"),
        Case("a tenth is", _case(0.1), "silent"),
        Case("the CPU does not matter", _case(0.5, cost=StepCost(0.0, 0.05)), "silent"),
        Case("one node", _case(None, nodes=1), "silent"),
        Case("pages were not looked at", _case(None), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, remedies=(BIND,))
