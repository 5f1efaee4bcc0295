"""From a profile to a diagnosis: the steady window, its budget, the verdict and how sure it is.

A training that is still running is diagnosed from hooks since its start, or from stack samples alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil, sqrt
from statistics import median

from ..model.diagnosis import BatchCost, Diagnosis, Inputs, Scenario, Step
from ..model.instruments import InstrumentCost
from ..model.loops import Loader, Loop
from ..model.profile import Profile
from ..model.report import Metric, Overhead, Quality, Verdict
from ..model.run import Gap, Progress
from ..source.files import is_queued
from .attribution import attribute, epoch_ends
from .device import find_gaps, is_accelerated, view_device
from .host import busy_workers, measure_host, rate, uncontended
from .hot_lines import FETCH, NO_FEEDERS, find_feeders
from .inputs import (
    NETWORK,
    STORAGE,
    disagreement,
    measure_inputs,
    own_inputs,
    own_works,
    rows_within,
    split_blocked,
    split_waits,
    steady_fetches,
    with_feeders,
    works_of,
)
from .loop_cpu import with_written
from .loop_parts import training_samples
from .loop_without_loader import judge_gap, with_waits
from .memory import with_freed
from .metrics import cpu_busy, measure
from .predict import RESOURCE
from .ranks import SIMILAR
from .replay import step_seconds
from .scenario import build_scenario
from .shares import MOST
from .steady import (
    WARMUP_SHARE,
    SteadyWindow,
    choose_loop,
    find_window,
    loader_of,
    split_at_window,
    steps_of,
    tell_apart,
)
from .steps import Z90, budget_of, mean_in, seconds_in, share_in, span_of, steps_in
from .threads import judge_threads, torch_threads
from .verdict import NEARER, NO_GAINS, STEPS_AT_LEAST, Trust, decide
from .whole_run import evaluations_of, judge_whole, measure_whole

LIVE_SAMPLES = 100  # of a training's thread; with fewer, a share is known to 8 percentage points at best
SLEEPS = {**dict.fromkeys(STORAGE, "input.storage"), **dict.fromkeys(NETWORK, "input.network")}
SIDES = {
    "data": "waiting for data", "forward": "the model", "backward": "the model", "loss": "the model",
    "compiled": "the model", "zero_grad": "the model", "optimizer": "the model", "exchange": "other ranks",
    "checkpoint": "checkpoints", "logging": "logging", "user": "its own code", "line": "its own code",
}  # fmt: skip
CAUSES = {
    "the model": "model.compute", "other ranks": "comm.allreduce", "checkpoints": "host.checkpoint",
    "logging": "host.logging", "its own code": "host.python",
}  # fmt: skip
SOURCE = "stack samples of the training thread"


def by_samples(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with a verdict and a data wait from stack samples; as it was where there are too few."""
    profile = diagnosis.profile
    inside: Counter[int] = Counter()  # by process: samples in torch
    for stack in profile.stacks:
        if stack.role == "trainer" and any("/torch/" in frame for frame in stack.frames):
            inside[stack.pid] += stack.count
    trainer = max(inside, key=inside.__getitem__, default=None)
    seen: Counter[str] = Counter()
    for one in training_samples(profile, trainer, None) if trainer is not None else ():
        side = "waiting for data" if is_queued(one.stack.frames) else SIDES.get(one.part, "its own code")
        seen[side] += one.stack.count
    host = measure_host(profile, 0.0, profile.run.duration_s, None)
    metrics = diagnosis.metrics | {"cpu_busy_fraction": cpu_busy(host)}
    total = sum(seen.values())
    if total < LIVE_SAMPLES:
        why = f"{total} stack samples of a training thread; at least {LIVE_SAMPLES} are needed"
        return replace(diagnosis, metrics=metrics, verdict=replace(diagnosis.verdict, summary=why))
    share = seen["waiting for data"] / total
    wide = Z90 * sqrt(max(share * (1 - share), 1 / total) / total)
    wait = Metric(share, "share", max(0.0, share - wide), min(1.0, share + wide), total, SOURCE)
    metrics |= {"data_wait_fraction": wait, "exposed_data_wait_fraction": wait}
    return replace(diagnosis, metrics=metrics, verdict=_verdict(profile, trainer, seen, total))


def _verdict(profile: Profile, trainer: int | None, seen: Counter[str], total: int) -> Verdict:
    (side, most), *others = seen.most_common()
    shares = ", ".join(f"{name} {count / total:.0%}" for name, count in seen.most_common() if count)
    why = f"of {total} samples of the training thread: {shares}; steps were not timed"
    if side != "waiting for data" and profile.machine.gpus:
        why += ", and the accelerator was not measured"
        return Verdict("inconclusive", "none", why, "low", None, NO_GAINS)
    cause = _why_late(profile, trainer) if side == "waiting for data" else CAUSES[side]
    bound = RESOURCE[cause] or "io"  # what is written to a disk, or over a network
    sure = "medium" if (others[0][1] if others else 0) < NEARER * most else "low"
    return Verdict(bound, cause, why, sure, None, NO_GAINS)


def _why_late(profile: Profile, trainer: int | None) -> str:
    """The cause of late batches: their makers compute, or what they sleep in."""
    stacks = [one for one in profile.stacks if any(FETCH in frame for frame in one.frames)]
    workers = [one for one in stacks if one.role == "worker"]
    makers = workers or [one for one in stacks if one.pid == trainer]
    known = [one for one in makers if one.running is not None]
    awake = sum(one.running or 0 for one in known)
    if known and awake >= MOST * sum(one.count for one in known):
        return "input.preprocess"
    pids = {one.pid for one in makers}
    asleep: Counter[str] = Counter()
    for blocked in profile.blocked:
        for counts in blocked.counts if blocked.pid in pids else ():
            for name, count in counts.items():
                if name != "running":
                    asleep[SLEEPS.get(name, "input.wait")] += count
    return asleep.most_common(1)[0][0] if asleep else "input.wait"


STALLED = 10.0  # seconds without a batch, and times a step's usual time: the loop hangs, or saves (chosen)
ENOUGH_STEPS = ceil(STEPS_AT_LEAST / (1 - WARMUP_SHARE))  # of a run, for a verdict


def ranks_of(progress: Sequence[Progress]) -> list[Progress]:
    """The processes that train together, the furthest first."""
    return [one for one in progress if one.steps >= SIMILAR * progress[0].steps]


def pace(before: Iterable[Progress], after: Sequence[Progress]) -> tuple[float | None, float | None]:
    """Seconds per step of the slowest rank, and data wait of the one that waits most, as a share of time."""
    earlier = {one.pid: one for one in before}
    moved = [
        (earlier[one.pid], one, one.last_ns - earlier[one.pid].last_ns)
        for one in ranks_of(after)
        if one.pid in earlier and one.steps > earlier[one.pid].steps
    ]
    if not moved:
        return None, None
    return (
        max(span / (one.steps - then.steps) / 1e9 for then, one, span in moved),
        max(min(1.0, max(0.0, (one.wait_ns - then.wait_ns) / span)) for then, one, span in moved),
    )


def is_stalled(silent_s: float, step_s: float | None) -> bool:
    """Whether no batch came for so long that it is reported."""
    return silent_s > STALLED * max(1.0, step_s or 0.0)


def diagnose(profile: Profile) -> Diagnosis:
    """All conclusions of a profile but its findings. Total: any valid profile has a diagnosis."""
    loop = choose_loop(profile)
    loader = loader_of(profile, loop)
    gap = judge_gap(profile, loop) if loop is not None and not loop.loader else None
    if loop is not None and gap is not None:
        loop = with_waits(profile, loop, gap)
    if loop is not None:
        loop = attribute(profile, loop).evaluated.set_aside(loop)
    window, slowed = SteadyWindow([], 0), list[Gap]()
    if loop is not None:
        workers = loader.num_workers if loader is not None and loop.loader else 0
        slots = workers * (loader.prefetch_factor or 2) if loader is not None else 0
        second = loop.epochs.t[1] if len(loop.epochs.t) > 1 else 0.0
        window = find_window(steps_of(loop.table), loop.table.set_aside, slots, second)
        if is_accelerated(profile):
            window, slowed = split_at_window(window, loop.table)
    stretches = [with_written(profile, loop, with_freed(profile, loop, one)) for one in window.stretches]
    window = replace(window, stretches=stretches)
    main, phases = tell_apart(window, lambda steps: _judge(profile, loop, loader, steps))
    main = judge_whole(main, measure_whole(profile, loop), _evaluation(profile, loop))
    found = replace(
        main,
        metrics=measure(main, (gap.low, gap.high) if gap is not None else None),
        source=gap.location if gap is not None else None,
        quality=_quality(profile, window, main, slowed),
        phases=phases,
    )
    return by_samples(found) if profile.run.attached else found


def _judge(profile: Profile, loop: Loop | None, loader: Loader | None, steps: list[Step]) -> Diagnosis:
    """The diagnosis of one stretch of steps, without what is judged over all stretches."""
    begin, end = span_of(steps)
    workers = loader.num_workers if loader is not None else 0
    table = steady_fetches(profile, loop, loader)
    inputs = measure_inputs(profile, table, begin, end, workers) if steps else Inputs()
    works: tuple[BatchCost, ...] = ()
    feeders = NO_FEEDERS
    if table is not None and table.t:
        rows = rows_within(table, begin, end)
        works = works_of(table, split_blocked(profile, table, rows, begin, end), rows)
    elif loop is not None and not loop.loader:
        feeders = find_feeders(profile, loop.pid)
        processes = any(one.pid != loop.pid for one in feeders.stacks)
        split = with_feeders(split_waits(profile, loop, begin, end), min(1.0, feeders.cores), processes)
        read = rate(profile.series, "job_read_bytes", begin, end) or 0.0
        works, inputs = own_works(steps, split, read), own_inputs(steps, split, read)
    device = view_device(profile, begin, end, loop, steps)
    host = measure_host(profile, begin, end, device)
    scenario = (
        build_scenario(profile, loop, loader, steps, works, inputs, host, device, feeders) if steps else None
    )
    step_s = mean_in(steps)
    error = 1.0  # how far the replay of the run as it was lies from what was measured
    if scenario is not None and step_s > 0:
        fitted = 0.5 * scenario.transport.transfer / step_s  # a fitted parameter always fits
        error = max(fitted, abs(step_seconds(scenario) / step_s - 1))
    held = share_in(steps, "held")
    blind = loader is None or (workers > 0 and not works)  # workers that are older than the hooks, too
    trust = Trust(steps_in(steps), seconds_in(steps), error,
                  inputs.blocked_samples, held * _workers_part(profile, loop, scenario),
                  share_in(steps, "wait"), disagreement(profile, loop, steps),
                  unseen=loop is not None and bool(loop.loader) and blind,
                  stopped_by=profile.run.stopped_by)  # fmt: skip
    threads = judge_threads(profile, loop, scenario, host, held).factor[1]
    verdict, causes = decide(scenario, inputs, loader, host, trust, threads, device)
    trains = loop if loop is not None and loop.role == "train" else None
    samples = [one for one in attribute(profile, trains).own if not one.logs]
    return Diagnosis(
        profile=profile, loop=loop, source=None, loader=loader, steps=steps, inputs=inputs,
        host=host, scenario=scenario, step_s=step_s,
        wait_s=mean_in(steps, "wait"),
        model_error=error, metrics={},
        budget=budget_of(steps, device, step_s, samples, epoch_ends(profile, loop).share, profile.sources),
        quality=Quality(0, 0, None, Overhead(None, None, None)), verdict=verdict,
        causes=causes, device=device,
    )  # fmt: skip


def _evaluation(profile: Profile, loop: Loop | None) -> Diagnosis | None:
    """The diagnosis of the steps of the longest evaluation loop, by the same rules as the training's."""
    longest = next(iter(evaluations_of(profile, loop)), None)
    if longest is None:
        return None
    steps = []
    for step, flag in zip(steps_of(longest.table), longest.table.set_aside, strict=True):
        if flag != "instrument":  # without the training between two passes
            rest = step.compute + step.backward + step.optimizer
            steps.append(replace(step, backward=0.0, optimizer=0.0, compute=rest))
    judged = _judge(profile, longest, loader_of(profile, longest), steps)
    return replace(judged, metrics=measure(judged))


def _workers_part(profile: Profile, loop: Loop | None, scenario: Scenario | None) -> float:
    """The workers' part of what keeps the loop from its core; the rest is surplus threads of the model."""
    if scenario is None or not scenario.workers:
        return 1.0
    surplus = max(0.0, (torch_threads(profile, loop) or 1) - scenario.cores)
    busy = busy_workers(scenario) if surplus else 1.0
    return busy / (busy + surplus)


def _share(part_s: float | None, whole_s: float) -> float | None:
    """None for a share of zero, or of less than a nanosecond, which no clock measures."""
    return part_s / whole_s if part_s is not None and whole_s >= 1e-9 else None


def _overhead(profile: Profile, main: Diagnosis) -> Overhead:
    """The overhead of ``bdoc`` in this run. CPU time of other processes delays a training in proportion
    to how busy it keeps all cores."""
    cost, cores = profile.cost, main.host.job_cores
    busy = 1.0 if cores is None else min(1.0, cores / main.host.cores)
    outside = busy * ((cost.supervisor_cpu_s or 0.0) + cost.stacks_cpu_s)
    return Overhead(
        agent_s_per_step=cost.agent_s_per_step,
        share_of_step=_share(cost.agent_s_per_step, main.step_s),
        supervisor_cpu_share=_share(cost.supervisor_cpu_s, profile.run.duration_s),
        within_s=None if cost.agent_s is None else cost.agent_s + outside,
        around_s=around_s(cost),
    )


def around_s(cost: InstrumentCost) -> float | None:
    """Seconds before the training's start and after its end."""
    return None if cost.before_s is None or cost.after_s is None else cost.before_s + cost.after_s


def _quality(profile: Profile, window: SteadyWindow, main: Diagnosis, slowed: list[Gap]) -> Quality:
    walls = [step.wall for step in main.steps]
    usual = median(walls) if walls else 0.0
    noise = median(abs(wall - usual) for wall in walls) / usual if usual > 0 else 0.0
    return Quality(
        steady_steps=steps_in(main.steps),
        warmup_steps=window.warmup_steps,
        step_time_noise=noise if walls else None,
        overhead=_overhead(profile, main),
        gaps=[*profile.gaps, *find_gaps(main.device), *slowed],
        set_aside=window.set_aside,
        uncontended_step=uncontended(
            main.steps, main.inputs, main.loader.num_workers if main.loader is not None else 0, main.host
        ),
    )
