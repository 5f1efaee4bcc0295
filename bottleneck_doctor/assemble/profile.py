"""Puts one profile together from everything that a run left.

That are its processes and their roles, the outcome of a trial, and the sensors' samples, folded into series
of bounded length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..agent import wire
from ..model.instruments import InstrumentCost, InstrumentWindow, Operator, Sample, Series, Stack
from ..model.loops import Blocked, Loop
from ..model.profile import Optimizer, Profile
from ..model.run import Crash, Gap, Losses, Order, Process, Snapshot, Treated, Trial
from ..source.files import Mask
from ..source.reader import around, read_body, read_sources
from .computing import hold_up, read_computing, read_operations, read_ranks
from .device import find_hidden, find_untraced, read_devices, read_drivers, read_traces
from .elapsed import read_elapsed, read_fetchers
from .facts import (
    AskedFact,
    BatchesFact,
    DeviceFact,
    ExitFact,
    LoopFact,
    LossesFact,
    ProcessFact,
    RanksFact,
    SettledFact,
    TorchFact,
    TreatedFact,
    WorkerFact,
)
from .fetches import (
    FETCHES_AT_MOST,
    find_fetchers,
    read_fetches,
    read_hot_files,
    read_making,
    read_payload,
    read_repeats,
)
from .loaders import Iteration, Numbering, read_iterations, read_loaders
from .loop_without_loader import read_outside, read_places
from .rows import ProcessLog, S, read_logs
from .steps import LOOPS_AT_MOST, ROWS_AT_MOST, flag, read_loops, thin

PROCESSES_AT_MOST = 256


def read_processes(logs: list[ProcessLog], numbering: Numbering, origin: int) -> list[Process]:
    """One entry per process that carried the agent; trainers first."""
    births = {row.pid: numbering.get((log.pid, row.loader)) for log in logs for row in log.of(wire.WORKER)}
    processes = [_process(log, births.get(log.pid), origin) for log in logs]
    order = {"trainer": 0, "worker": 1, "other": 2}
    return sorted(processes, key=lambda process: order[process.role])[:PROCESSES_AT_MOST]


def _process(log: ProcessLog, loader: str | None, origin: int) -> Process:
    torch, who, settled = log.first(TorchFact), log.first(ProcessFact), log.first(SettledFact)
    # What it computes on: where its optimizers' parameters are, unless on the host, where they may be kept
    # for want of room; else the accelerator that it had begun to use.
    kinds = [one.device for one in log.facts_of(Optimizer)]
    own = next((kind for kind in kinds if kind and kind not in ("cpu", "meta")), None)
    rank, world_size = _ranks(log)
    trains = log.of(wire.NEXT, wire.BACKWARD, wire.OPTIMIZER, wire.STEP)
    return Process(
        pid=log.pid,
        ppid=log.parent,
        role="worker" if log.facts_of(WorkerFact) else "trainer" if trains else "other",
        started_s=max(0.0, (log.start_ns - origin) * S),
        rank=rank,
        world_size=world_size,
        loader=loader,
        python=who.python,
        torch=torch.version,
        torch_threads=settled.threads or torch.threads,
        device=own or log.first(DeviceFact).kind or settled.device or None,
    )


def _ranks(log: ProcessLog) -> tuple[int | None, int | None]:
    """(rank, ranks in all), by the process group, else by the launcher's environment."""
    group, who = log.first(RanksFact), log.first(ProcessFact)
    return (
        who.rank if group.rank is None else group.rank,
        who.world_size if group.world_size is None else group.world_size,
    )


AT_MOST = 64  # processes, of each sort
LOSSES_AT_MOST = 256


def read_trial(order: Order | None, logs: list[ProcessLog]) -> Trial | None:
    """None where the run was no trial."""
    if order is None:
        return None
    treated = [Treated(one.name, log.pid, one.why) for log in logs for one in log.facts_of(TreatedFact)]
    losses = []
    for log in logs:  # each fact of a process holds what came since its last one
        values = [value for one in log.facts_of(LossesFact) for value in one.values]
        batches = [value for one in log.facts_of(BatchesFact) for value in one.checksums]
        if values or batches:
            losses.append(Losses(log.pid, _ranks(log)[0], values[:LOSSES_AT_MOST], batches[:LOSSES_AT_MOST]))
    return Trial(order, treated[:AT_MOST], losses[:AT_MOST])


BIRTH = ("_worker_loop ", "_life.<locals>._worker_loop ")
# Since then an interpreter keeps its threads' system ids; before, py-spy takes all but one thread for awake.
SAYS_WHO_SLEEPS = (3, 11)


def read_stacks(stacks: list[Stack], processes: list[Process]) -> list[Stack]:
    """A worker's path begins in its loop; forked processes carry their parent's frames above it."""
    pythons = {one.pid: one.python for one in processes}
    usual = processes[0].python if processes else ""
    found = []
    for stack in stacks:
        births = [place for place, frame in enumerate(stack.frames) if frame.startswith(BIRTH)]
        frames = stack.frames[births[-1] :] if births else stack.frames
        python = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", pythons.get(stack.pid) or usual)
        old = python is not None and tuple(map(int, python.groups())) < SAYS_WHO_SLEEPS
        role, running = "worker" if births else "trainer", None if old else stack.running
        found.append(replace(stack, role=role, frames=frames, running=running))
    return found


POINTS_AT_MOST = 1024
CELLS_AT_MOST = 100_000  # so that many GPUs, each with three dozen names, leave a profile its size (chosen)
BUCKETS_AT_MOST = 512
NOT_COUNTS = frozenset({"pid", "width_s"})
GRID_NS = 500_000_000  # sensors of one tick read a few milliseconds apart; they share a row
SEPARATE = frozenset({"blocked", "loop", "file"})


def read_series(samples: Iterable[Sample], origin: int) -> Series:
    """One row per half-second; the sensors' names are unique already. In long runs a row stands for several:
    each name keeps its last value, so that what is read rarely, or not in step with the rest, is not lost."""
    rows: dict[int, dict[str, float]] = {}
    for sample in samples:
        if sample.sensor not in SEPARATE:
            numbers = {
                name: float(value) for name, value in sample.values.items() if not isinstance(value, str)
            }
            rows.setdefault(sample.t_ns // GRID_NS * GRID_NS, {}).update(numbers)
    times = sorted(rows)
    names = sorted({name for row in rows.values() for name in row})
    at_most = min(POINTS_AT_MOST, max(1, CELLS_AT_MOST // max(1, len(names))))
    every = -(-len(times) // at_most) or 1
    groups = [times[place : place + every] for place in range(0, len(times), every)]
    kept = [{name: value for t in group for name, value in rows[t].items()} for group in groups]
    return Series(
        [max(0.0, (group[-1] - origin) * S) for group in groups],
        {name: [row.get(name) for row in kept] for name in names},
    )


def read_blocked(samples: Iterable[Sample], loader_of: dict[int, str], origin: int) -> list[Blocked]:
    """What fetching threads were seen doing, per loader and half-second, and training loops."""
    bins: dict[tuple[str, int], dict[int, Counter[str]]] = {}
    for sample in samples:
        pid = int(float(sample.values.get("pid", 0)))
        loader = loader_of.get(pid, "") if sample.sensor == "blocked" else ""
        if loader or sample.sensor == "loop":
            counts = bins.setdefault((loader, 0 if loader else pid), {}).setdefault(sample.t_ns, Counter())
            for name, value in sample.values.items():
                if name not in NOT_COUNTS and not isinstance(value, str):
                    counts[name] += int(value)
    found = []
    for (loader, pid), rows in bins.items():
        times = sorted(rows)
        every = -(-len(times) // BUCKETS_AT_MOST) or 1
        groups = [times[place : place + every] for place in range(0, len(times), every)]
        totals = [sum((rows[t] for t in group), Counter[str]()) for group in groups]  # zeros are left out
        instants = [(group[0] - origin) * S for group in groups]
        found.append(Blocked(loader, instants, [dict(total) for total in totals], pid=pid))
    return found


ALL_OPERATIONS_AT_MOST = 128


@dataclass(frozen=True)
class Remains(Snapshot):
    """What the supervisor has measured, with the run's folder, where the agents' rows lie.

    ``mask`` hides secrets in the user's source; without one, none of it is kept.
    ``order`` is that of a trial.
    """

    folder: Path | None = None
    stacks_cpu_s: float = 0.0
    before_s: float | None = None
    mask: Mask | None = None
    order: Order | None = None
    processes: list[Process] = field(default_factory=list)  # known without an agent


def assemble(remains: Remains) -> Profile:
    """Facts only; whatever is missing becomes a gap, never an error."""
    logs = read_logs(remains.folder) if remains.folder is not None else []
    trainers = [log for log in logs if not log.facts_of(WorkerFact)]
    origin, run = remains.origin_ns, remains.run
    loaders, numbering = read_loaders(logs, run.cwd, remains.mask)
    fetchers = find_fetchers(logs, numbering)
    some = list(fetchers.items())[:64]
    loader_of = {one.log.pid: key for key, members in fetchers.items() for one in members}
    iterations = {log.pid: read_iterations(log, numbering) for log in logs}
    windows = remains.windows + [
        InstrumentWindow("torch.profiler", (row.t - origin) * S, (row.end - origin) * S)
        for log in logs
        for row in log.of(wire.PROFILER_WINDOW)
    ]
    loops, outside = _loops(logs, iterations, windows, remains)
    payloads = [read_payload(key, members) for key, members in fetchers.items()]
    repeats = [read_repeats(key, members) for key, members in fetchers.items()]
    drivers = read_drivers(remains.samples, trainers)
    traces = read_traces(trainers, remains.folder)
    device, others = read_devices(trainers, iterations, drivers, windows, origin, traces)
    processes = read_processes(logs, numbering, origin) or remains.processes
    end, working = origin + round(run.duration_s * 1e9), read_fetchers(loaders, fetchers)
    lives = [read_elapsed(log, iterations[log.pid], working, origin, end) for log in trainers]
    each = [read_operations(log, origin) for log in trainers]
    if sum(map(len, each)) > ALL_OPERATIONS_AT_MOST:  # of every process the heaviest, or the last have none
        room = max(1, ALL_OPERATIONS_AT_MOST // len(each))
        each = [sorted(mine, key=lambda one: -one.total_s)[:room] for mine in each]
    operations = [one for mine in each for one in mine][:ALL_OPERATIONS_AT_MOST]
    stacks = read_stacks(remains.stacks, processes)
    computing = read_computing(trainers, fetchers, origin)
    # What a step was made of: by the trace, which knows the device's time, or by the process's own table.
    tables = {log.pid: log.facts_of(Operator)[:64] for log in trainers}
    tables |= {pid: traced.table.operators for pid, traced in traces.items()}
    anatomies, operators, unheld = hold_up(computing.anatomies, tables, loops, outside)
    hidden = find_hidden(drivers, [device, *others] if device else [])
    # Of the process that made most steps; a killed one has no more than what its board says.
    trained = [max(log.board.get("trained", 0), log.first(ExitFact).trained or 0) for log in trainers]
    return Profile(
        run=replace(run, trained=max(trained, default=0), crash=_crash(logs, processes, run.pid)),
        machine=remains.machine,
        processes=processes,
        loaders=loaders[:256],
        loops=loops,
        outside=outside,
        fetches=[
            read_fetches(key, members, origin, FETCHES_AT_MOST // max(1, len(some))) for key, members in some
        ],
        payloads=[payload for payload in payloads if payload],
        repeats=[repeat for repeat in repeats if repeat],
        makings=[read_making(key, members, logs, numbering) for key, members in some],
        blocked=read_blocked(remains.samples, loader_of, origin),
        hot_files=read_hot_files(logs, remains.samples, loader_of),
        operations=operations,
        stacks=stacks,
        operators=operators[:64],
        computing=replace(computing, anatomies=anatomies),
        series=read_series(remains.samples, origin),
        windows=windows[:64],
        ranks=read_ranks(trainers),
        cost=_cost(logs, remains),
        gaps=[*remains.gaps, *hidden, *_silences(logs, remains), *unheld, *find_untraced(trainers, traces)],
        elapsed=[one for one in lives if one is not None][:64],
        device=device,
        other_devices=others,
        trial=read_trial(remains.order, logs),
        sources=read_sources(stacks, operations, run.cwd, remains.mask),
    )


def _crash(logs: list[ProcessLog], processes: list[Process], launched: int | None) -> Crash | None:
    """The first, of those of trainers and of the process that was launched where there are such."""
    ended = sorted(logs, key=lambda log: log.first(ExitFact).at_ns or 0)
    crashes = [one for log in ended for one in log.facts_of(Crash)]
    known = {launched, *(one.pid for one in processes if one.role == "trainer")}
    return min(crashes, key=lambda one: one.pid not in known, default=None)


def _loops(
    logs: list[ProcessLog],
    iterations: dict[int, list[Iteration]],
    windows: list[InstrumentWindow],
    remains: Remains,
) -> tuple[list[Loop], list[Loop]]:
    """The loops over loaders, those with most steps first, and those without a loader.

    Steps under torch.profiler are set aside. py-spy samples from outside, at a few percent of a core: steps
    under it count like the others.
    """
    loops: list[Loop] = []
    outside: list[Loop] = []
    for log in logs:
        mine, body = iterations[log.pid], read_body(read_places(log, LoopFact), remains.run.cwd)
        asked = around(body, read_places(log, AskedFact))
        loops += read_loops(log, mine, remains.origin_ns, asked)
        if not log.facts_of(WorkerFact):
            outside += read_outside(log, mine, remains.origin_ns, body)
    loops = sorted(loops, key=lambda loop: -loop.steps)[:LOOPS_AT_MOST]
    at_most = ROWS_AT_MOST  # of all loops together, about: the longest tables are shortened first
    while at_most > 64 and sum(min(len(loop.table.t), at_most) for loop in loops) > ROWS_AT_MOST:
        at_most //= 2
    kept = [replace(loop, table=thin(loop.table, at_most)) for loop in loops]
    spans = [(one.start_s, one.end_s) for one in windows if one.instrument == "torch.profiler"]
    for loop in kept:
        flag(loop.table, spans, "instrument")
    return kept, outside


def _cost(logs: list[ProcessLog], remains: Remains) -> InstrumentCost:
    busiest = max(logs, key=lambda log: log.board.get("steps", 0), default=None)
    steps = busiest.board.get("steps", 0) if busiest else 0
    agent_s = busiest.board["cost_ns"] * 1e-9 if busiest and steps > 0 else None
    return InstrumentCost(
        agent_s_per_step=agent_s / steps if agent_s is not None else None,
        supervisor_cpu_s=remains.supervisor_cpu_s,
        agent_s=agent_s,
        stacks_cpu_s=remains.stacks_cpu_s,
        before_s=remains.before_s,
    )


def _silences(logs: list[ProcessLog], remains: Remains) -> list[Gap]:
    """What the agents could not measure."""
    gaps = []
    if not logs and remains.folder is not None:
        gaps.append(
            Gap(
                "hooks",
                "no Python process of this run loaded the agent "
                "(python -I, -E or -S, one without its global lock, or a scrubbed environment)",
                "add `import bottleneck_doctor.agent; bottleneck_doctor.agent.arm()` to the script",
            )
        )
    dropped = sum(max(0, log.board.get("dropped", 0)) for log in logs)
    if dropped:
        gaps.append(Gap("rows", f"{dropped} rows found no room and were dropped", "free space under TMPDIR"))
    return gaps
