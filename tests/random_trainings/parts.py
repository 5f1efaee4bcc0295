"""What can be taken out of a training, and the words of the contract that name each part."""

from __future__ import annotations

from dataclasses import dataclass

from tests.patients.patient import ids
from tests.random_trainings.plan import ORDINARY_MS, Plan

MODEL = ids("model.compute", "host.launch", "model.threads")
MAKING = ids("input.preprocess", "input.indexing", "input.collate", "input.ipc")


@dataclass(frozen=True)
class Part:
    """``WITHOUT=name`` takes it out; a verdict with one of these bounds and causes names it."""

    name: str
    bounds: frozenset[str]
    causes: frozenset[str]


COSTS = {
    "none": Part("input", ids("cpu"), MAKING),
    "python": Part("input", ids("cpu"), ids("input.preprocess")),
    "numpy": Part("input", ids("cpu"), ids("input.preprocess")),
    "torch": Part("input", ids("cpu"), ids("input.preprocess")),
    "sleep": Part("input", ids("latency"), ids("input.wait")),
    "lock": Part("input", ids("latency"), ids("input.wait")),
    "disk": Part("input", ids("io"), ids("input.storage")),
    "network": Part("input", ids("io"), ids("input.network")),
    "rows": Part("input", ids("cpu"), ids("input.indexing", "input.collate")),
    # Many short tensors are made in the data set, then put together or moved.
    "fields": Part("input", ids("cpu"), ids("input.preprocess", "input.collate", "input.ipc")),
    "collate": Part("input", ids("cpu"), ids("input.collate")),
    "index": Part("index", ids("cpu"), ids("input.worker_startup")),
    "respawn": Part("respawn", ids("cpu"), ids("input.worker_startup")),
}
EXTRAS = {
    # A line that is forced to the disk waits for it; a dump of numbers is Python's work.
    "log": Part("log", ids("io", "cpu"), ids("host.logging")),
    "checkpoint": Part("checkpoint", ids("io", "cpu"), ids("host.checkpoint")),
    "gc": Part("gc", ids("cpu"), ids("host.gc")),
    "metrics": Part("metrics", ids("cpu"), ids("host.python", "host.sync")),
    "temporaries": Part("temporaries", ids("cpu"), ids("host.memory")),
    "evaluation": Part("evaluation", ids("cpu"), ids("host.evaluation")),
}


def parts(plan: Plan) -> list[Part]:
    """The parts of one training that can be taken out, one at a time."""
    found = [Part("model", ids("cpu"), MODEL)]
    if plan.threads and plan.launcher == "none":
        found.append(Part("threads", ids("cpu"), ids("model.threads")))
    if plan.step == "rl":
        return [*found, Part("environment", ids("cpu"), ids("host.python"))]
    if plan.launcher != "none":
        word = {"comm": "comm.allreduce", "straggler": "comm.straggler"}[plan.focus]
        return [*found, Part(plan.focus, ids("comm"), ids(word))]
    own = _input(plan)
    if plan.access != "sliced":
        found.append(own)
    return [*found, *(_extra(plan, name, own) for name in plan.extras)]


def _input(plan: Plan) -> Part:
    part = COSTS[plan.cost]
    ordinary_ms = ORDINARY_MS[plan.store] * plan.batch
    if (
        part.name == "input"
        and plan.cost != "rows"
        and plan.cost_ms < 2 * ordinary_ms
        and plan.store not in ("direct", "http")
    ):
        return Part("input", part.bounds | {"cpu"}, part.causes | MAKING)
    return part


def _extra(plan: Plan, name: str, own: Part) -> Part:
    part = EXTRAS[name]
    if name == "evaluation" and plan.held_out == "loader":
        return Part(name, part.bounds | own.bounds, part.causes | own.causes)
    return part
