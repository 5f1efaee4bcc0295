"""Builds the replay's scenario from the measured steady window, with what the loop does per batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, median

from ..model.device import DeviceClockStep, DeviceView, DeviceWindow
from ..model.diagnosis import (
    BatchCost,
    CostShares,
    EpochStart,
    FeederLoad,
    HostLoad,
    Inputs,
    Scenario,
    Step,
    StepCost,
    Transport,
)
from ..model.loops import Loader, Loop, Payload
from ..model.profile import Profile
from ..model.run import Machine
from .device import is_always_ahead, runs_ahead, without_room
from .host import crowding, strangers
from .hot_lines import NO_FEEDERS, Feeders
from .inputs import UNSEEN, epoch_draws_s, judge_reads, making_of, moving_of, own_works, streams_of
from .loop_cpu import NOTHING, LoopCpuSplit, held_by_lock, host_cpu_s, logged, split_of
from .memory import loop_stall_s, measure_shortage, paging_s, with_stalls, without_making
from .ranks import exchange_shares
from .replay import cost_seconds, step_seconds
from .shares import NEARLY_ALL, PART
from .steps import mean_in, seconds_in, share_in, spaced, span_of, steps_in
from .threads import asleep_share, making_threads, operator_s, resting_share


@dataclass(frozen=True)
class LoopFacts:
    """What is known of the loop's time in addition to the steps' own clocks.

    ``exchange``: shares of time asleep in exchanges that are the exchange itself, and slower ranks; the rest
    waits for ranks without a core. ``release``: what a step pays for tensors that came from other processes.
    ``threads``: on how many cores the loop computes. ``copied``: its CPU for exchanged gradients.
    ``stored``: the share of its writing in which it sleeps. ``fault_s``: what mapping a page takes.
    """

    accelerated: bool = False
    device: DeviceView | None = None
    split: LoopCpuSplit = NOTHING
    exchange: tuple[float, float] = (1.0, 0.0)
    release: float = 0.0
    threads: float = 1.0
    copied: float = 0.0
    stored: float = 0.0
    fault_s: float | None = None


def costs_of(steps: list[Step], known: LoopFacts) -> tuple[StepCost, ...]:
    """One turn for each step, or for the mean of neighbours in a long run."""
    return tuple(cost_of(step, known) for step in spaced(steps))


def cost_of(step: Step, known: LoopFacts) -> StepCost:
    """Split the loop's own time into its kinds of CPU and idle; waiting for a core belongs to none.

    With an accelerator the thread's CPU clock is not used, since waiting for a device spins.
    """
    queue, collect = step.held, step.collect
    if step.cpu is not None and step.cpu > 0:  # it never sleeps: it waits for a core like the rest of the CPU
        collect = max(collect - queue, collect * step.cpu / (step.cpu + queue))
    queue = max(0.0, queue - (step.collect - collect))
    host = (step.checkpoint, step.logging, collect)
    device = known.device
    if device is not None and device.beat is not None:
        held = min(NEARLY_ALL, queue / max(step.wall - step.wait, 1e-12))
        return device_cost(device.beat, *host, held, behind=known.exchange[1])
    if device is not None and device.clock is not None:
        return _undivided_cost(device.clock, *host)
    copied = known.copied if step.exchange > 0 else 0.0
    itself, slower = (step.exchange * share for share in known.exchange)
    ranks = {"comm": itself + copied, "straggler": slower}
    own = step.compute + step.backward + step.optimizer + step.copy
    if known.accelerated:
        return StepCost(0.0, own, *host, **ranks)
    spent = host_cpu_s(step, known.stored, collect)
    cpu = own if step.cpu is None else min(own, max(0.0, step.cpu - spent))
    idle = max(0.0, own - cpu - min(queue, own))
    cpu = max(0.0, cpu - copied)
    cpu -= min(known.release, 0.5 * cpu)
    mapping = paging_s(step.system, step.faults, known.fault_s)
    paging = min(cpu, mapping / max(1.0, known.threads))  # threads fault side by side
    cpu -= paging
    python, launch = cpu * known.split.python, cpu * known.split.launch
    compute = max(0.0, cpu - python - launch)
    return StepCost(compute, idle, *host, python, launch, paging=paging, **ranks)


def device_cost(
    beat: DeviceWindow,
    checkpoint: float = 0.0,
    logging: float = 0.0,
    collect: float = 0.0,
    held: float = 0.0,
    behind: float = 0.0,
) -> StepCost:
    """The turn of a loop whose device's clock was read. The thread's CPU clock is not used, since waiting for
    a device spins. ``held`` is the share of its time in which the loop had no core: that
    is the replay's to add. ``behind`` is the share of its exchanges that it waits for slower ranks."""
    return StepCost(
        compute=0.0,
        checkpoint=checkpoint,
        logging=logging,
        collect=collect,
        launch=max(0.0, beat.host_s - beat.sync_s) * (1 - held),
        comm=beat.collective_s * (1 - behind),
        straggler=beat.collective_s * behind,
        device=beat.busy_s + beat.unexplained_s,
        copying=beat.transfer_s,
        lead_in=beat.sync_s * (1 - held),
        allocating=beat.memory_s,
    )


def _undivided_cost(clock: DeviceClockStep, checkpoint: float, logging: float, collect: float) -> StepCost:
    """The turn where it is not known how busy the device is: all that is no waiting of its own is taken for
    computing, unless it was seen to be done each time before the loop came back."""
    launch, device = without_room(clock.issue_s, clock.rest_s), clock.rest_s
    if is_always_ahead(clock):
        launch, device = clock.rest_s, 0.0
    return StepCost(
        0.0, 0.0, checkpoint, logging, collect, launch=launch, device=device, copying=clock.transfer_s
    )


ROUNDS = 12  # of halving: to a four-thousandth of the range
SLICES = 4.0  # times as long as usual at most, until a thread that wakes gets a core (chosen)
TELLS = 1.01  # times the replayed step at least; below it, the parameter has no effect (chosen)
SIBLING = 0.25  # of a core is what its second hardware thread adds: "up to 30 %" [Intel Tech. J. 6(1), 2002]


def fitted(base: Scenario, measured: float, own: float, bulky: bool) -> Scenario:
    """``measured`` is the step, ``own`` the loop's time in it outside of ``next``, in seconds; ``bulky``
    batches are many tensors, or many bytes through a pipe."""
    if base.workers == 0:
        return base
    base = _turned(_moved(base, measured) if bulky else base, own)
    if base.threads > 1.0 and step_seconds(base) > measured:  # threads that spin, as in ``_turned``
        turned = base
        base = _slowed(_scaled(base, PART), measured, lambda left: _scaled(turned, left), PART, 1.0)
    # What the replay lacks is waiting for a busy core at each wake-up.
    waking = base.transport.waking
    if step_seconds(base) <= TELLS * step_seconds(_with_transport(base, waking=0.0)):
        return base  # it is hidden behind the device, or cores are free
    return _slowed(base, measured, lambda value: _with_transport(base, waking=value), waking, SLICES * waking)


def _moved(base: Scenario, measured: float) -> Scenario:
    """Attributes what the replay lacks to the loop's wait for the worker's other threads to send.

    An epoch's first batch is moved like all others: that is no cost of beginning an epoch.
    """
    base = _transferred(base, measured)
    moving = base.transport.hand_over + base.transport.serialise + base.transport.transfer
    start = max(0.0, base.epoch.seconds - moving)
    base = replace(base, epoch=replace(base.epoch, seconds=start))
    return _transferred(_with_transport(base, transfer=0.0), measured)


def _with_transport(base: Scenario, **seconds: float) -> Scenario:
    return replace(base, transport=replace(base.transport, **seconds))


def _transferred(base: Scenario, measured: float) -> Scenario:
    return _slowed(base, measured, lambda value: _with_transport(base, transfer=value), 0.0, measured)


def _turned(base: Scenario, own: float) -> Scenario:
    """Scales the turns' computing so that their replay gives the measured time: threads of a loop that shares
    cores with workers spin for each other, which the replay adds."""
    longest = own + base.transport.hand_over + base.sampling
    if base.threads <= 1.0 or cost_seconds(base) <= longest:
        return base
    return _scaled(base, _halved(PART, 1.0, lambda left: cost_seconds(_scaled(base, left)) > longest))


def _scaled(base: Scenario, left: float) -> Scenario:
    """The scenario with the share ``left`` of the turns' computing."""
    costs = (replace(one, compute=one.compute * left, launch=one.launch * left) for one in base.costs)
    return replace(base, costs=tuple(costs))


def _slowed(
    base: Scenario, measured: float, at: Callable[[float], Scenario], low: float, high: float
) -> Scenario:
    """The scenario whose value, from ``low`` to ``high``, makes the replay come up to the measured step."""
    if high <= low or step_seconds(base) >= measured:
        return base
    most = step_seconds(at(high))
    if most <= measured:
        # A parameter without effect explains nothing.
        return at(high) if most > TELLS * step_seconds(base) else base
    return at(_halved(low, high, lambda value: step_seconds(at(value)) > measured))


def _halved(low: float, high: float, is_too_much: Callable[[float], bool]) -> float:
    """The largest value in the range that is not too much."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_too_much(middle) else (middle, high)
    return low


ASLEEP_S = 2e-4  # of the loop, while it receives a batch (chosen: 34 recorded runs)
RELEASE_S = 8e-6  # to map a tensor, touch it first and unmap it, while the loop works with it (measured)
MANY_TENSORS = 32  # in a batch, or this many bytes pickled: moving it is fitted (chosen)
BULKY_PIPE_BYTES = 1e6
WAKE_S = 1e-3  # until a thread that wakes gets a core where all are busy: a third of an EEVDF slice (chosen)
# In an exchange, of its own threads one after the other (chosen: on two oversubscribed cores they waited
# 3.6 ms a step for a core instead of 1.9)
EXCHANGE_WAKES = 2
COUNTED = ("limit", "device", "writes")  # served side by side: no more than that
DELAY_S = 2e-4  # from a finished batch to a woken loop (chosen)
THREADS_MARK = 1.3  # process CPU over thread CPU from which the loop computes on several cores


def build_scenario(
    profile: Profile,
    loop: Loop | None,
    loader: Loader | None,
    steps: list[Step],
    works: tuple[BatchCost, ...],
    inputs: Inputs,
    host: HostLoad,
    device: DeviceView | None = None,
    feeders: Feeders = NO_FEEDERS,
) -> Scenario:
    """The loop as the replay sees it. Without ``works`` the waits themselves are the making of batches."""
    workers = _workers(loop, loader)
    threads = _threads(profile, steps, inputs, workers, host.trainers)
    payload = next((one for one in profile.payloads if loader and one.loader == loader.key), Payload("", 0))
    receive, send, serving = moving_of(payload, steps, workers, profile.machine.handed_s)
    release = RELEASE_S * payload.tensors
    stored = _stored_share(profile, loop)
    # CPU per backward pass after its last own gradient, for copying back what was exchanged.
    passes = (one for one in profile.ranks.passes if loop is not None and one.pid == loop.pid and one.shared)
    known = LoopFacts(
        accelerated=host.accelerated,
        device=device,
        split=split_of(profile, loop, steps, host, stored),
        exchange=exchange_shares(profile, loop.pid if loop is not None else None),
        release=release if workers else 0.0,
        threads=threads,
        copied=next((one.exchange_cpu_s for one in passes), 0.0),
        stored=stored,
        fault_s=profile.machine.fault_s,
    )
    costs = costs_of(steps if workers else without_making(steps, inputs), known)
    making, step_s = making_of(profile, loader), mean_in(steps)
    stall_s = loop_stall_s(measure_shortage(profile, inputs, *span_of(steps), step_s), step_s)
    judged = inputs.written or (loader is not None and inputs.storage > 0)
    reads = judge_reads(profile, loader, inputs, host, step_s) if judged else None
    exchanging = _exchanging(profile, steps, inputs, workers, costs)
    crowd = crowding(inputs, workers, send)
    base = Scenario(
        works=tuple(replace(one, cpu=one.cpu * crowd) for one in works) or own_works(steps, UNSEEN, 0.0),
        costs=with_stalls(costs, stall_s),
        workers=workers,
        prefetch=(loader.prefetch_factor if loader is not None else None) or 2,
        in_order=loader.in_order if loader is not None else True,
        cores=capacity(profile.machine, host.cores) / host.trainers,
        strangers=strangers(host) / host.trainers,
        threads=threads,
        operator_s=operator_s(profile),
        making_threads=making_threads(inputs, steps) if not workers else 1.0,
        sampling=making.draw_s or 0.0,
        transport=Transport(
            hand_over=release + max(0.0, receive - (making.draw_cpu_s or 0.0) * bool(workers)),
            serialise=send,
            serving=serving,
            transfer=0.0 if workers else ASLEEP_S,
            waking=WAKE_S * (1 + payload.tensors + (EXCHANGE_WAKES if exchanging > 0 else 0)),
            delay=DELAY_S,
        ),
        epoch=_epoch(loop, inputs, workers, epoch_draws_s(making, loop)),
        shares=CostShares(
            stored=stored,
            exchanging=exchanging,
            asleep=0.0 if host.accelerated else asleep_share(profile, loop),
            resting=0.0 if host.accelerated else resting_share(profile, loop),
        ),
        streams=max(1.0, streams_of(reads) or 0.0) if reads and reads.pace in COUNTED else 0.0,
        feeders=FeederLoad(feeders.count, sending=feeders.sending),
        ahead=runs_ahead(device, fmean([step.wait for step in steps])) if device is not None else 0.0,
        undivided=device is not None and device.clock is not None and device.beat is None,
    )
    bulky = payload.tensors > MANY_TENSORS or payload.pipe_bytes > BULKY_PIPE_BYTES
    base = fitted(held_by_lock(profile, loop, base), step_s, step_s - mean_in(steps, "wait"), bulky)
    base = replace(base, limited=step_s if reads is not None and reads.pace == "limit" else 0.0)
    if not feeders.count:
        return base
    taken = share_in(steps, "held") * feeders.cores / (feeders.cores + strangers(host))
    load = replace(base.feeders, seconds=step_s * feeders.cores / feeders.count)
    return replace(base, feeders=load, crowded=base.crowded + taken * step_s)


def capacity(machine: Machine, cores: float) -> float:
    """What so many logical cores compute when all are busy, in units of one that is busy alone."""
    physical = machine.physical_cores
    if physical is None or cores <= physical:
        return cores
    return physical + SIBLING * (cores - physical)


def _workers(loop: Loop | None, loader: Loader | None) -> int:
    """The loader's workers; a background thread that feeds the loop counts as one."""
    if loader is None:
        return 0
    return max(1, loader.num_workers) if loop is not None and not loop.loader else loader.num_workers


def _threads(profile: Profile, steps: list[Step], inputs: Inputs, workers: int, trainers: int) -> float:
    """On how many cores the loop computes: process CPU over loop-thread CPU, fetches apart; at most on its
    part of those that several trainers share."""
    mine, inside, everything = (seconds_in(steps, part) for part in ("cpu", "wait_cpu", "process_cpu"))
    if workers == 0:  # CPU of a fetch's helper threads, or of OpenMP spinning during it, is not the loop's
        everything -= inputs.other_cpu * steps_in(steps)
    if mine <= 0 or everything <= 0:
        return 1.0
    if _sums_gradients(profile, steps):
        return 1.0
    ratio = (everything - inside) / mine
    most = profile.machine.affinity_cores or profile.machine.cores  # a quota allows more
    return max(1.0, min(most / trainers, ratio)) if ratio >= THREADS_MARK else 1.0


def _sums_gradients(profile: Profile, steps: list[Step]) -> bool:
    """Whether CPU of the process outside of the loop's thread is the exchange: its threads sum gradients."""
    single = all(one.torch_threads == 1 for one in profile.processes if one.role == "trainer")
    return single and any(step.exchange for step in steps)


def _exchanging(
    profile: Profile, steps: list[Step], inputs: Inputs, workers: int, costs: tuple[StepCost, ...]
) -> float:
    """Share of the exchange in which its own threads compute."""
    exchange = sum(cost.comm for cost in costs) / max(1, len(costs))
    if exchange <= 0 or not _sums_gradients(profile, steps):
        return 0.0
    outside = mean_in(steps, "process_cpu") - mean_in(steps, "cpu") - mean_in(steps, "wait_cpu")
    outside -= 0.0 if workers else inputs.other_cpu
    return max(0.0, min(1.0, outside / exchange))


def _epoch(loop: Loop | None, inputs: Inputs, workers: int, draws_s: float) -> EpochStart:
    """What an epoch's beginning costs, with workers beyond making its first batch; a run that began once has
    no epochs."""
    if loop is None or len(loop.epochs.batches) < 2:
        return EpochStart(0, 0.0 if workers else draws_s, draws_s)
    begins = zip(loop.epochs.build_s[1:], loop.epochs.first_wait_s[1:], strict=True)
    seconds = max(0.0, median([build + first for build, first in begins]) - inputs.wall)
    steps = max(1, round(fmean(loop.epochs.batches[:-1])))
    return EpochStart(steps, seconds if workers else draws_s, draws_s)


def _stored_share(profile: Profile, loop: Loop | None) -> float:
    """Share of checkpoint and logging time in which the thread was blocked, not computing: by hooks or, of
    what no hook timed, by stack samples."""
    writing = [one for one in profile.operations if one.kind in ("checkpoint", "logging")]
    total = sum(one.total_s for one in writing)
    if total <= 0:
        return logged(profile, loop).asleep
    return max(0.0, 1 - sum(one.cpu_s for one in writing) / total)
