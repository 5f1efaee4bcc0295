"""What findings about the model's own computation share: whose facts count, operators, and what is spared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from ...analyse.loop_cpu import anatomy_of
from ...analyse.steps import seconds_in, steps_in
from ...model.code import Location
from ...model.computing import DispatchBreakdown, Optimizer, ScriptSettings
from ...model.diagnosis import Change, Diagnosis, Scenario
from ...model.instruments import Operator
from ...model.run import ENVIRONMENT, Treatment
from .facts import place

PROFILER = "torch.profiler window"
MOST_SPARED = 0.95  # of the loop's own work, at most: nothing vanishes (chosen)
SETTINGS = "read when the training began to move"


def anatomy(diagnosis: Diagnosis) -> DispatchBreakdown | None:
    """The profiled step of the loop's process."""
    return anatomy_of(diagnosis.profile, diagnosis.loop)


def switches(diagnosis: Diagnosis) -> ScriptSettings | None:
    """The switches and settings of the loop's process."""
    known = diagnosis.profile.computing.switches
    return next((one for one in known if diagnosis.loop and one.pid == diagnosis.loop.pid), None)


def optimizers(diagnosis: Diagnosis) -> list[Optimizer]:
    """The optimizers of the loop's process, the largest first."""
    known = diagnosis.profile.computing.optimizers
    mine = [one for one in known if diagnosis.loop and one.pid == diagnosis.loop.pid]
    return sorted(mine, key=lambda one: -one.elements)


def threads_set_to(count: int) -> tuple[Treatment, ...]:
    """The environment reaches every library's pool; what the script sets itself, only the agent reaches."""
    return Treatment(ENVIRONMENT, {"OMP_NUM_THREADS": count}), Treatment("threads", {"count": count})


def operators(diagnosis: Diagnosis, wanted: Callable[[str], bool]) -> list[Operator]:
    """The profiled operators with such names, ``aten::`` taken off; of several ranks, a mean rank's."""
    found = [one for one in diagnosis.profile.operators if wanted(one.name.rpartition("::")[2])]
    ranks = max(1, len(diagnosis.profile.computing.anatomies))
    return [replace(one, calls=one.calls / ranks, self_cpu_s=one.self_cpu_s / ranks) for one in found]


def share_of(diagnosis: Diagnosis, wanted: Callable[[str], bool]) -> float:
    """The share of the profiled operators' time in those with such names."""
    known = diagnosis.profile.computing.anatomies
    total = fmean(one.own_s for one in known) if known else 0.0
    mine = sum(one.self_cpu_s for one in operators(diagnosis, wanted))
    return min(1.0, mine / total) if total > 0 else 0.0


def is_product(name: str) -> bool:
    """Matrix products and convolutions, forward and backward."""
    return name in ("mm", "addmm", "bmm", "baddbmm", "_mkldnn_linear", "mkldnn_linear") or "conv" in name


def own_s(scenario: Scenario) -> float:
    """Seconds per step that the loop computes and calls operators."""
    return fmean(cost.compute + cost.launch for cost in scenario.costs)


def optimizer_s(diagnosis: Diagnosis, scenario: Scenario) -> float:
    """CPU seconds per step in the optimizer: its wall time, less its part of the time without a core."""
    steps = [step for step in diagnosis.steps if step.cpu is not None]
    wall = seconds_in(steps, "optimizer")
    cpu, count = seconds_in(steps, "cpu"), steps_in(steps)
    wanted = cpu + seconds_in(steps, "held")
    return min(own_s(scenario), wall / count * cpu / wanted) if count and cpu > 0 else 0.0


def spared(scenario: Scenario, seconds: float) -> Change:
    """The change that saves this many seconds per step of the loop's computing and calling."""
    left = 1 - min(MOST_SPARED, max(0.0, seconds) / max(own_s(scenario), 1e-12))
    return Change(compute=left, launch=left)


def built_at(optimizer: Optimizer) -> Location | None:
    """The line that built the optimizer."""
    return place(optimizer.file, optimizer.line)
