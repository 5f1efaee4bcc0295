"""Builds the replay's scenario from the measured steady window, and fits its one free number."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median
from typing import Any

from ..model.diagnosis import Host, Inputs, Scenario, Step, Turn, Work
from ..model.profile import Loader, Loop, Operation, Payload, Profile
from .host import strangers
from .reads import judge_reads, streams_of
from .replay import step_seconds

TURNS_AT_MOST = 192
HAND_OVER_S = 1.5e-4  # loop CPU per batch from a worker, before any tensor [catalogue F12]
TENSOR_S = 1.09e-4  # and per tensor passed by descriptor [catalogue F12, measured]
PICKLED_S_PER_BYTE = 6e-10  # loop CPU per byte that travels pickled through the pipe [catalogue F12]
MANY_TENSORS = 32  # in a batch, or this many bytes pickled: moving it is worth a doubt [catalogue F12]
BULKY_PIPE_BYTES = 1e6
DELAY_S = 2e-4  # from a finished batch to a woken loop (ours)
THREADS_MARK = 1.3  # process CPU over thread CPU from which the loop computes on several cores


def build_scenario(
    profile: Profile,
    loop: Loop | None,
    loader: Loader | None,
    steps: list[Step],
    works: tuple[Work, ...],
    inputs: Inputs,
    host: Host,
) -> Scenario:
    """The loop as the replay sees it. ``works`` empty = the waits themselves are the work of a loop that
    fetches for itself."""
    workers = loader.num_workers if loader is not None else 0
    if loop is None and works:  # a background thread feeds the loop: one worker in the loop's own process
        workers = max(1, workers)
    threads = _threads(profile, steps, inputs, workers)
    hand_over, serialise = _moving(profile, loader, steps, workers)
    base = Scenario(
        works=works or tuple(_work_from(step) for step in _spaced(steps)),
        turns=tuple(_turn(step, host.accelerated) for step in _spaced(steps)),
        workers=workers,
        prefetch=(loader.prefetch_factor if loader is not None else None) or 2,
        in_order=loader.in_order if loader is not None else True,
        cores=host.cores,
        strangers=strangers(host),
        threads=threads,
        hand_over=hand_over,
        serialise=serialise,
        delay=DELAY_S,
        epoch_steps=_epoch_steps(loop),
        epoch_start=_epoch_start(loop, inputs, workers),
        stored=_stored_share(profile.operations),
        streams=_streams(profile, loader, inputs, host, fmean_wall(steps)),
    )
    if _is_bulky(profile, loader):
        base = fit_transfer(base, fmean_wall(steps))
    return fit(base, fmean_wall(steps))


def fit_transfer(base: Scenario, measured: float) -> Scenario:
    """Many tensors, or bytes through a pipe: what the replay lacks of the measured step is the loop waiting
    for the worker's other threads to send. No clock of either side shows it."""
    low, high = 0.0, max(0.0, measured)
    if base.workers == 0 or step_seconds(base) >= measured:
        return base
    for _ in range(12):
        middle = (low + high) / 2
        slow = step_seconds(replace(base, transfer=middle)) > measured
        low, high = (low, middle) if slow else (middle, high)
    return replace(base, transfer=low)


def _is_bulky(profile: Profile, loader: Loader | None) -> bool:
    payload = next((one for one in profile.payloads if loader and one.loader == loader.key), None)
    return payload is not None and (payload.tensors > MANY_TENSORS or payload.pipe_bytes > BULKY_PIPE_BYTES)


def fmean_wall(steps: list[Step]) -> float:
    """Mean step seconds over rows that stand for several steps each."""
    total = sum(step.steps for step in steps)
    return sum(step.wall * step.steps for step in steps) / total if total else 0.0


def fit(base: Scenario, measured: float) -> Scenario:
    """Where the loop computes on cores that workers also want, its measured turns hold their interference.

    The free-running turn is found by scaling it until the replay gives the measured step time.
    """
    if base.workers == 0 or base.threads <= 1.0 or step_seconds(base) <= measured:
        return base
    low, high = 0.2, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if step_seconds(_scaled(base, middle)) > measured else (middle, high)
    return _scaled(base, high)


def _scaled(base: Scenario, factor: float) -> Scenario:
    return replace(base, turns=tuple(replace(turn, compute=turn.compute * factor) for turn in base.turns))


def _spaced(steps: list[Step]) -> list[Step]:
    """At most TURNS_AT_MOST rows, evenly spaced, so that rare stalls keep their weight on average."""
    every = -(-len(steps) // TURNS_AT_MOST) or 1
    if every == 1:
        return steps
    groups = [steps[place : place + every] for place in range(0, len(steps), every)]
    return [_average(group) for group in groups]


def _average(group: list[Step]) -> Step:
    names = "wall wait backward optimizer checkpoint logging collect copy compute".split()
    means: dict[str, Any] = {name: fmean([getattr(step, name) for step in group]) for name in names}
    known: dict[str, Any] = {
        name: fmean(values)
        if (values := [v for step in group if (v := getattr(step, name)) is not None])
        else None
        for name in ("cpu", "queue", "process_cpu", "wait_cpu")
    }
    return replace(group[-1], **means, **known)


def _turn(step: Step, accelerated: bool) -> Turn:
    """Split the loop's own time into CPU and idle; waiting for a core belongs to neither.

    With an accelerator the thread's CPU clock says nothing: waiting for a device spins.
    """
    own = step.compute + step.backward + step.optimizer + step.copy
    queue = max(0.0, (step.queue or 0.0) - step.wait_queue)
    collect = _collecting(step, queue)
    queue = max(0.0, queue - (step.collect - collect))
    host_work = step.checkpoint + step.logging + collect
    cpu = own if step.cpu is None else min(own, max(0.0, step.cpu - host_work))
    if accelerated:
        return Turn(0.0, own, step.checkpoint, step.logging, collect)
    idle = max(0.0, own - cpu - min(queue, own))
    return Turn(cpu, idle, step.checkpoint, step.logging, collect)


def _collecting(step: Step, queue: float) -> float:
    """Garbage collection net of waiting for a core: it never sleeps, so it waits like the rest of the CPU."""
    if step.cpu is None or step.cpu <= 0:
        return step.collect
    return max(step.collect - queue, step.collect * step.cpu / (step.cpu + queue))


def _work_from(step: Step) -> Work:
    cpu = min(step.wait, step.wait_cpu or 0.0)
    return Work(cpu=cpu, wait=max(0.0, step.wait - cpu - step.wait_queue))


def _threads(profile: Profile, steps: list[Step], inputs: Inputs, workers: int) -> float:
    """On how many cores the loop computes: process CPU over loop-thread CPU, fetches apart."""
    mine = sum((step.cpu or 0.0) * step.steps for step in steps)
    inside = sum((step.wait_cpu or 0.0) * step.steps for step in steps)
    everything = sum((step.process_cpu or 0.0) * step.steps for step in steps)
    if mine <= 0 or everything <= 0:
        return 1.0
    ratio = (everything - inside) / mine
    return min(profile.machine.cores, ratio) if ratio >= THREADS_MARK else 1.0


def _moving(profile: Profile, loader: Loader | None, steps: list[Step], workers: int) -> tuple[float, float]:
    """(loop CPU, worker CPU) per batch for moving it: measured with workers, else from its content."""
    payload = next((one for one in profile.payloads if loader and one.loader == loader.key), Payload("", 0))
    estimate = HAND_OVER_S + TENSOR_S * payload.tensors + PICKLED_S_PER_BYTE * payload.other_bytes
    if workers == 0:
        return estimate, estimate + PICKLED_S_PER_BYTE * payload.other_bytes
    known = [step.wait_cpu for step in steps if step.wait_cpu is not None]
    return (median(known) if known else estimate), payload.serialise_cpu_s


def _epoch_steps(loop: Loop | None) -> int:
    """Batches per epoch, when the loop began more than once."""
    if loop is None or len(loop.epochs.batches) < 2:
        return 0
    whole = loop.epochs.batches[:-1]
    return max(1, round(fmean(whole)))


def _epoch_start(loop: Loop | None, inputs: Inputs, workers: int) -> float:
    """Seconds that an epoch's beginning costs beyond making its first batch."""
    if loop is None or workers == 0 or len(loop.epochs.t) < 2:
        return 0.0
    later = zip(loop.epochs.build_s[1:], loop.epochs.first_wait_s[1:], strict=True)
    return max(0.0, median([build + first for build, first in later]) - inputs.wall)


def _streams(profile: Profile, loader: Loader | None, inputs: Inputs, host: Host, step_s: float) -> float:
    """How many reads the storage serves side by side; 0 where nothing limits that."""
    if loader is None or inputs.storage <= 0:
        return 0.0
    judged = judge_reads(profile, loader.key, loader.num_workers, inputs, host, step_s)
    return max(1.0, streams_of(judged) or 0.0) if judged.pace in ("limit", "device") else 0.0


def _stored_share(operations: list[Operation]) -> float:
    """Share of checkpoint and logging time in which the thread was blocked, not computing."""
    writing = [one for one in operations if one.kind in ("checkpoint", "logging")]
    total = sum(one.total_s for one in writing)
    return max(0.0, 1 - sum(one.cpu_s for one in writing) / total) if total > 0 else 0.0
