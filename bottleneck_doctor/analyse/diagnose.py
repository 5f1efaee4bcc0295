"""From a profile to a diagnosis: the steady window, its budget, the verdict and how sure it is."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from ..model.diagnosis import BatchCost, Diagnosis, Inputs, Scenario, Step
from ..model.instruments import InstrumentCost
from ..model.loops import Loader, Loop
from ..model.profile import Profile
from ..model.report import Overhead, Quality
from ..model.run import Gap
from .attribution import attribute
from .between_epochs import epoch_ends
from .device import find_gaps, is_accelerated, view_device
from .host import busy_workers, measure_host, rate, uncontended
from .hot_lines import NO_FEEDERS, find_feeders
from .inputs import (
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
from .live_diagnosis import by_samples
from .loop_cpu import with_written
from .loop_without_loader import judge_gap, with_waits
from .memory import with_freed
from .metrics import measure
from .replay import step_seconds
from .scenario import build_scenario
from .steady import SteadyWindow, choose_loop, find_window, loader_of, split_at_window, steps_of, tell_apart
from .steps import budget_of, mean_in, seconds_in, share_in, span_of, steps_in
from .threads import judge_threads, torch_threads
from .verdict import Trust, decide
from .whole_run import evaluations_of, judge_whole, measure_whole


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
        metrics=measure(main, stretches, (gap.low, gap.high) if gap is not None else None),
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
    error = _model_error(scenario, step_s)
    held = share_in(steps, "held")
    blind = loader is None or (workers > 0 and not works)  # workers that are older than the hooks, too
    trust = Trust(steps_in(steps), seconds_in(steps), error,
                  inputs.blocked_samples, held * _workers_part(profile, loop, scenario),
                  share_in(steps, "wait"), disagreement(profile, loop, steps),
                  unseen=loop is not None and bool(loop.loader) and blind)  # fmt: skip
    threads = judge_threads(profile, loop, scenario, host, held).factor[1]
    verdict, causes = decide(scenario, inputs, loader, host, trust, threads, device)
    trains = loop if loop is not None and loop.role == "train" else None
    samples = [one for one in attribute(profile, trains).own if not one.logs]
    return Diagnosis(
        profile=profile, loop=loop, source=None, loader=loader, steps=steps, inputs=inputs,
        host=host, scenario=scenario, step_s=step_s,
        wait_s=mean_in(steps, "wait"),
        model_error=error, metrics={},
        budget=budget_of(steps, device, step_s, samples, epoch_ends(profile, loop).share),
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
    return replace(judged, metrics=measure(judged, [steps]))


def _model_error(scenario: Scenario | None, step_s: float) -> float:
    """How far the replay of the run as it was lies from what was measured."""
    if scenario is None or step_s <= 0:
        return 1.0
    fitted = 0.5 * scenario.transport.transfer / step_s  # a fitted parameter always fits
    return max(fitted, abs(step_seconds(scenario) / step_s - 1))


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
