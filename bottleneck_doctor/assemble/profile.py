"""Puts one profile together from everything that a run left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ..model.instruments import InstrumentCost, InstrumentWindow, Operator
from ..model.loops import Loop
from ..model.profile import Profile
from ..model.run import Gap, Order, Process, Snapshot
from ..source.files import Mask
from ..source.reader import around, read_sources
from .computing import hold_up, read_computing
from .device import find_hidden, find_untraced, read_devices, read_drivers, read_traces
from .elapsed import read_elapsed, read_fetchers
from .excerpts import read_excerpts
from .facts import AskedFact, WorkerFact
from .fetches import (
    FETCHES_AT_MOST,
    find_fetchers,
    read_fetches,
    read_hot_files,
    read_making,
    read_payload,
    read_repeats,
)
from .loaders import Iteration, read_iterations, read_loaders
from .loop_without_loader import find_body, read_outside, read_places
from .loops import read_loops
from .operations import read_operations, read_ranks, read_windows
from .processes import read_processes, read_trial
from .rows import ProcessLog, read_logs
from .samples import read_blocked, read_series, read_stacks
from .steps import ROWS_AT_MOST, flag, thin


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
    windows = remains.windows + [window for log in logs for window in read_windows(log, origin)]
    loops, outside = _loops(logs, iterations, windows, remains)
    payloads = [read_payload(key, members) for key, members in fetchers.items()]
    repeats = [read_repeats(key, members) for key, members in fetchers.items()]
    drivers = read_drivers(remains.samples, trainers)
    traces = read_traces(trainers, remains.folder)
    device, others = read_devices(trainers, iterations, drivers, windows, origin, traces)
    processes = read_processes(logs, numbering, origin) or remains.processes
    end, working = origin + round(run.duration_s * 1e9), read_fetchers(loaders, fetchers)
    lives = [read_elapsed(log, iterations[log.pid], working, origin, end) for log in trainers]
    operations = [one for log in trainers for one in read_operations(log, origin)][:128]
    stacks = read_stacks(remains.stacks, processes)
    computing = read_computing(trainers, fetchers, origin)
    # What a step was made of: by the trace, which knows the device's time, or by the process's own table.
    tables = {log.pid: log.facts_of(Operator)[:64] for log in trainers}
    tables |= {pid: traced.table.operators for pid, traced in traces.items()}
    anatomies, operators, unheld = hold_up(computing.anatomies, tables, loops, outside)
    hidden = find_hidden(drivers, [device, *others] if device else [])
    return Profile(
        run=run,
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
        excerpts=read_excerpts(loops, loaders, fetchers, logs, iterations, windows, origin),
        trial=read_trial(remains.order, logs),
        sources=read_sources(stacks, operations, run.cwd, remains.mask),
    )


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
        mine, body = iterations[log.pid], find_body(log, remains.run.cwd)
        asked = around(body, read_places(log, AskedFact))
        loops += read_loops(log, mine, remains.origin_ns, asked)
        if not log.facts_of(WorkerFact):
            outside += read_outside(log, mine, remains.origin_ns, body)
    loops = sorted(loops, key=lambda loop: -loop.steps)[:64]
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
