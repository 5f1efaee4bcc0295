"""The number of worker processes, their restarts, their shared memory, and how they share samples out."""

from __future__ import annotations

from dataclasses import replace
from math import floor

from ..analyse.inputs import making_of
from ..analyse.predict import TRIFLE, WORTH, best_setting, fewer_workers, gain
from ..analyse.scenario import THREADS_MARK
from ..analyse.shares import ALL_BUT_NOISE, MOST, NOTICED
from ..analyse.steps import seconds_in
from ..analyse.whole_run import life_of
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import HOOK, dearest, payload_of, place_of, readings, takes_turns, wait_evidence, waits
from .lines import crowded
from .registry import dataloader_loop, finding, given, snippet
from .remedies import (
    FEWER,
    NOTHING,
    RESERVE,
    SLACK_CORES,
    WORKERS,
    more_workers,
    no_workers,
    on_loader,
    reserve_cores,
)

# workers-too-few
BUSY = 0.8  # of the workers' time in fetches (chosen)
CAUSES = ("input.preprocess", "input.collate", "input.storage", "input.network", "input.wait")


@finding("input.preprocess", WORKERS, needs=(dataloader_loop,))
def workers_too_few(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when workers are busy, the loop waits, and the replay predicts a gain from more workers."""
    loader, scenario, busy = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs.busy
    if not loader.num_workers or not waits(diagnosis):
        return None
    best = best_setting(scenario)
    if best.workers <= scenario.workers or gain(scenario, Change(workers=best.workers)) < WORTH:
        return None
    if busy is None:
        return "how busy the workers are: fewer than two fetches were timed"
    if busy < BUSY or takes_turns(diagnosis) or crowded(diagnosis):
        return None
    count, twice = float(loader.num_workers), gain(scenario, Change(workers=2 * scenario.workers))
    evidence = [
        Evidence("workers that make batches", "num_workers", count, "DataLoader arguments"),
        Evidence("share of the workers' time in fetches", "worker_busy_fraction", busy, "hooks on fetch"),
        Evidence("what twice the workers would bring", "doubled_speedup", twice, "replay"),
        *wait_evidence(diagnosis),
    ]
    proposals = more_workers(diagnosis, title=f"make batches in {best.workers} worker processes")
    return Finding("workers-too-few", dearest(diagnosis, CAUSES), evidence, proposals, loader.location)


# workers-too-many


@finding("input.oversubscribed", FEWER, RESERVE, needs=(dataloader_loop,))
def workers_too_many(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when model threads and workers oversubscribe the cores, and that holds the loop up."""
    loader, scenario = given(diagnosis.loader), given(diagnosis.scenario)
    crowd, cores = scenario.workers + scenario.threads, scenario.cores
    if not loader.num_workers or crowd <= cores + SLACK_CORES:
        return None
    queue, fewer = _queue_share(diagnosis), fewer_workers(scenario)
    wide = scenario.threads >= THREADS_MARK
    if wide and queue is None and fewer < WORTH:
        return "how long the loop's thread waits for a core (schedstat)"
    proposals = [_many_fewer(scenario, loader)] if fewer >= WORTH else []
    if wide and queue is not None and queue >= NOTICED:
        proposals += reserve_cores(diagnosis)
    if not proposals:
        return None
    known = (
        ("workers and threads of the model together", "wanted_cores", crowd, "process and thread CPU"),
        ("cores that the job may use", "cores", cores, "affinity and quota"),
        ("share of the step that the loop waits for a core", "loop_queue_share", queue, "schedstat"),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    return Finding("workers-too-many", "input.oversubscribed", evidence, proposals, loader.location)


def _queue_share(diagnosis: Diagnosis) -> float | None:
    """Share of the step in which the loop's thread is runnable without a core; None if not measured."""
    known = [step for step in diagnosis.steps if step.queue is not None]
    wall = seconds_in(known)
    return sum((step.queue or 0.0) * step.steps for step in known) / wall if wall > 0 else None


def _many_fewer(scenario: Scenario, loader: Loader) -> Proposal:
    best = best_setting(scenario).workers
    why = "take fewer workers: these have no cores of their own"
    return replace(
        on_loader(FEWER, loader, why, num_workers=best),
        title=f"make batches in {best} worker process{'es' if best > 1 else ''}",
        change=Change(workers=best),
    )


# worker-respawn
CAUSE = "input.worker_startup"
PERSISTENT_S = 0.002  # for an epoch's beginning with persistent workers (measured, two workers)
KEEP_WORKERS = Proposal(
    id="persistent-workers",
    title="keep the workers between epochs",
    fix=Fix("let the loader keep its workers", "DataLoader(..., persistent_workers=True)"),
    apply="hook",
    risk="workers do not see later changes to the data set; the loader must be built only once",
)
BUILD_ONCE = Proposal(
    id="persistent-workers",
    title="build the loader once, before the loop over epochs",
    fix=Fix("before the epochs", "loader = DataLoader(...)  # then: for epoch in range(epochs)"),
    risk="workers do not see later changes to the data set",
)


@finding(CAUSE, KEEP_WORKERS, BUILD_ONCE, FEWER)
def worker_respawn(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the beginnings of epochs cost a share of them that persistent workers would save, or where
    starting workers is what the run's time goes into."""
    of_run = _in_run(diagnosis) if diagnosis.subject == "run" else None
    return of_run or dataloader_loop(diagnosis) or _in_steps(diagnosis)


def _in_run(diagnosis: Diagnosis) -> Finding | None:
    """The finding for the whole run, if steps were too few to judge or workers started only once."""
    loader, whole = diagnosis.loader, diagnosis.whole
    life = life_of(diagnosis.profile, diagnosis.loop)
    if loader is None or not loader.num_workers or life is None or whole.starting_s <= 0:
        return None
    started = sum(one.role == "worker" for one in diagnosis.profile.processes)
    share = whole.starting_s / max(whole.run_s, 1e-9)
    known = (
        ("share of the run that goes into starting workers", "worker_start_share", share),
        ("time in which the loop waits for workers to start and to end", "worker_start_s", whole.starting_s),
        ("time in training steps", "training_steps_s", whole.steps_s),
        ("workers started", "workers_started", float(started)),
    )
    evidence = [Evidence(*one, HOOK) for one in known]
    proposals = []
    again = 1 - 1 / max(1, life.beginnings)  # share of starts after the first
    later_s = max(0.0, life.starting_s - life.first_start_s)
    later_s += again * (life.starting_evaluation_s + life.stopping_s)
    if life.beginnings > 1 and later_s > 0:
        proposals.append(_of_the_run(_persisting(loader), whole.run_s, later_s, later_s))
    few = max(1, floor(diagnosis.profile.machine.cores))
    spared_s = whole.starting_s * (1 - few / loader.num_workers)
    alone_s = _spared_by_none(diagnosis, whole.starting_s)
    if alone_s > max(spared_s, later_s):
        few, spared_s = 0, alone_s
    if spared_s > 0 and (few == 0 or later_s < MOST * whole.starting_s):
        proposals.append(_of_the_run(_respawn_fewer(loader, few), whole.run_s, spared_s, whole.starting_s))
    return Finding("worker-respawn", CAUSE, evidence, proposals, loader.location)


def _of_the_run(proposal: Proposal, run_s: float, spared_s: float, most_s: float) -> Proposal:
    """The remedy with its speedup of the whole run; at worst it spares half of that."""
    gone = (MOST * spared_s, spared_s, most_s)
    low, likely, high = (run_s / max(run_s - one, 1e-2 * run_s) for one in gone)
    title = f"{proposal.title} (gain of the whole run)"
    return replace(proposal, title=title, factor=(low, likely, high), basis="amdahl", scope="run")


def _spared_by_none(diagnosis: Diagnosis, starting_s: float) -> float:
    """Seconds that a run without workers saves: no starts, but batches are made in the loop."""
    inputs, loop = diagnosis.inputs, diagnosis.loop
    if loop is None or not inputs.batches:
        return 0.0
    return starting_s - loop.steps * max(0.0, inputs.wall - inputs.queue)


def _respawn_fewer(loader: Loader, few: int) -> Proposal:
    why = "no more workers than cores" if few else "the loop makes these batches faster than workers start"
    fewer = on_loader(FEWER, loader, f"{why}: each has to start and to import", num_workers=few)
    return replace(fewer, title=f"start fewer workers: {few or 'none'} instead of {loader.num_workers}")


def _in_steps(diagnosis: Diagnosis) -> Finding | str | None:
    """The finding for steady steps."""
    loader, scenario = given(diagnosis.loader), given(diagnosis.scenario)
    if not loader.num_workers:
        return None
    started = sum(one.role == "worker" and one.loader == loader.key for one in diagnosis.profile.processes)
    if loader.persistent_workers and started <= loader.num_workers:
        return None
    if not scenario.epoch.steps:
        return "the beginning of a second epoch: this run had one"
    start_s = scenario.epoch.seconds
    share = start_s / (scenario.epoch.steps * diagnosis.step_s)
    if share <= TRIFLE:
        return None
    known = (
        ("share of an epoch that its beginning takes", "epoch_start_share", share),
        ("wait at an epoch's beginning, beyond one batch", "epoch_start_s", start_s),
        ("batches from one iterator", "epoch_batches", float(scenario.epoch.steps)),
        ("workers started for this loader", "workers_started", float(started) or None),
    )
    evidence = [Evidence(*one, HOOK) for one in known if one[2] is not None]
    once = Change(startup=min(1.0, PERSISTENT_S / max(start_s, 1e-12)))
    proposals = [replace(_persisting(loader), change=once)]
    # without workers nothing starts, which the replay of steps does not count
    why = "the loop makes these batches faster than workers start"
    proposals += no_workers(diagnosis, why, gain=1.0)
    return Finding("worker-respawn", CAUSE, evidence, proposals, loader.location)


def _persisting(loader: Loader) -> Proposal:
    """Persistent workers; if they are set already, the loader was built anew, and BUILD_ONCE applies."""
    if loader.persistent_workers:
        return BUILD_ONCE.at(loader.location)
    return on_loader(KEEP_WORKERS, loader, persistent_workers=True)


# shm-exhaustion
MORE_ROOM = Proposal(
    id="grow-shm",
    title="give the container more shared memory",
    fix=Fix("kubernetes: an emptyDir of medium Memory", "docker run --shm-size=8g ...  # or --ipc=host"),
    factor=NOTHING,
    apply="admin",
    risk="it counts as memory of the container",
)
MORE_FILES = Proposal(
    id="raise-descriptor-limit",
    title="allow more open files, or share tensors by name",
    fix=Fix("before the start", "ulimit -n 65536  # or set_sharing_strategy('file_system')"),
    factor=NOTHING,
    apply="env",
    treatments=(Treatment("descriptors", {}),),
)
FEWER_IN_FLIGHT = Proposal(
    id="shrink-prefetch",
    title="prefetch one batch per worker",
    fix=Fix("fewer batches in flight", "DataLoader(..., prefetch_factor=1)"),
    change=Change(prefetch=1),
    apply="hook",
    risk="rare slow batches are felt sooner",
)


@finding("input.ipc", MORE_ROOM, MORE_FILES, FEWER_IN_FLIGHT, needs=(dataloader_loop,))
def shm_exhaustion(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when shared memory or descriptors may not suffice."""
    loader = given(diagnosis.loader)
    if not loader.num_workers:
        return None
    payload, profile = payload_of(diagnosis), diagnosis.profile
    free = (value for _, value in readings(profile.series, "shm_free_bytes"))
    room = max(free, default=profile.machine.shm_free_bytes)  # before the batches filled it
    if payload is None or room is None:
        return "the size of a batch, and the room in /dev/shm"
    slots = loader.num_workers * (loader.prefetch_factor or 2) + 1
    need = slots * payload.tensor_bytes
    used = _descriptors(diagnosis)
    tight, crowded = need > MOST * room, used >= ALL_BUT_NOISE  # batches vary, and are freed late
    if not tight and not crowded:
        return None
    known = (
        ("bytes that the loader's batches can hold at once", "batches_bytes", need, "batches seen"),
        ("bytes of room in /dev/shm at the start", "shm_free_bytes", room, "statvfs"),
        ("share of its descriptors that a process used", "descriptor_share", used or None, "/proc/PID/fd"),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    proposals = [MORE_ROOM] * tight + [MORE_FILES] * crowded
    if (loader.prefetch_factor or 2) > 1:
        proposals.append(on_loader(FEWER_IN_FLIGHT, loader, prefetch_factor=1))
    return Finding("shm-exhaustion", "input.ipc", evidence, proposals, loader.location)


def _descriptors(diagnosis: Diagnosis) -> float:
    """The largest share of its descriptors that a process used; 0 without readings."""
    series = diagnosis.profile.series
    used, limits = (readings(series, name) for name in ("descriptors", "descriptor_limit"))
    pairs = zip(used, limits, strict=False)
    return max((one / most for (_, one), (_, most) in pairs if most > 0), default=0.0)


# iterable-sharding
COMPARED_AT_LEAST = 4  # pairs of batches (chosen)
SHARD = Proposal(
    id="shard-by-worker",
    title="give each worker its own part",
    fix=Fix("let the data set ask which worker it is in", snippet("workers", "SHARDED")),
    risk="losses change, since each sample comes once; steps themselves are as long as before",
    basis="bound",
)


@finding("input.preprocess", SHARD, needs=(dataloader_loop,))
def iterable_sharding(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when two workers gave the same batches."""
    loader, place = given(diagnosis.loader), place_of(diagnosis)
    if loader.dataset_kind != "iterable" or loader.num_workers < 2:
        return None
    compared, equal = making_of(diagnosis.profile, loader).firstlings
    if not compared:
        return "comparable first batches from at least two workers"
    if compared < COMPARED_AT_LEAST or equal < ALL_BUT_NOISE * compared:
        return None
    text, most = "share of the workers' first batches that equal another worker's", float(loader.num_workers)
    evidence = [
        Evidence(text, "equal_batches_share", equal / compared, "checksums"),
        Evidence("pairs of batches compared", "compared_batches", float(compared), "checksums"),
    ]
    title = f"give each worker its own part: an epoch then has 1/{loader.num_workers} of the steps"
    proposal = replace(SHARD.at(place), title=title, factor=(1.0, 1.0, most), most=most)
    return Finding("iterable-sharding", "input.preprocess", evidence, [proposal], place)
