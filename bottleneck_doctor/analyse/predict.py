"""Turns a Change into a predicted speedup, with an interval from the replay's measured error.

What removing a cause would gain is one replay per cause, each with another change.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import ceil, exp, log

from ..model.device import DeviceView
from ..model.diagnosis import Change, Diagnosis, HostLoad, Inputs, Scenario
from ..model.loops import Loader
from ..model.report import Speedup
from .device import clock_loss
from .host import busy_workers, crowding
from .replay import SETTINGS, apply, one_thread_longer, step_seconds
from .shares import MOST, NEARLY_ALL, NOTICED

WORTH = 1.03  # a remedy that brings less is not reported [contract], nor is a setting that much better
TRIFLE = 1 - 1 / WORTH  # of a step: less of it cannot bring what a remedy has to

WORKERS_AT_MOST = 32
PREFETCHES = (2, 4, 8)


@dataclass(frozen=True)
class LoaderSetting:
    """A loader setting with its predicted step time."""

    workers: int
    prefetch: int
    step_s: float

    @property
    def change(self) -> Change:
        """The setting as a change; persistent workers start no epoch anew."""
        return Change(workers=self.workers, prefetch=self.prefetch, startup=0.0)


def candidates(scenario: Scenario) -> list[int]:
    """Worker counts worth a replay: every small one, then steps up to where waiting could be hidden."""
    blocked = sum(work.storage + work.network + work.wait for work in scenario.works)
    busy = sum(work.on_core for work in scenario.works)
    reach = 2 * scenario.cores + (4 * scenario.cores + 12) * blocked / max(blocked + busy, 1e-12)
    top = max(scenario.workers, min(WORKERS_AT_MOST, round(reach)), 2)
    counts = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32]
    return sorted({count for count in counts if count <= top} | {scenario.workers} - {0})


def best_setting(scenario: Scenario) -> LoaderSetting:
    """The fewest workers within 3 % of the best predicted step; deeper prefetch only if it pays."""

    def setting(workers: int, prefetch: int) -> LoaderSetting:
        change = Change(workers=workers, prefetch=prefetch, startup=0.0)
        return LoaderSetting(workers, prefetch, step_after(scenario, change))

    tried = [setting(count, PREFETCHES[0]) for count in candidates(scenario)]
    least = min(one.step_s for one in tried)
    chosen = next(one for one in tried if one.step_s <= WORTH * least)
    for depth in PREFETCHES[1:]:
        deeper = setting(chosen.workers, depth)
        if deeper.step_s * WORTH < chosen.step_s:
            chosen = deeper
    return chosen


def best_split(scenario: Scenario, longer: float) -> tuple[int, int]:
    """(workers, threads of the model, fewer than now) with the shortest step, or nearly so and fewer workers;
    ``longer`` is what computing takes with one thread over what it takes now."""
    found = []
    for workers in candidates(scenario):
        for threads in sorted({1, max(1, int(scenario.cores) - workers)}):
            if threads < scenario.threads:
                step_s = step_after(scenario, split_change(scenario, workers, threads, longer))
                found.append((step_s, workers, threads))
    least = min(found)[0]
    _, workers, threads = next(one for one in found if one[0] <= WORTH * least)
    return workers, threads


def split_change(scenario: Scenario, workers: int, threads: int, longer: float) -> Change:
    """A change to so many workers and threads; computing takes longer by Amdahl's law."""
    shared = (longer - 1) / (1 - 1 / scenario.threads)
    compute = longer - shared * (1 - 1 / threads)
    return Change(workers=workers, threads=float(threads), compute=compute, startup=0.0)


# The error that even a prediction keeps whose replay fits: what intervals needed in docs/accuracy.md.
FLOORS = {"replay": 0.2, "amdahl": 0.2, "bound": 0.4}
# Times as long as in the loop's process a batch takes a worker, at most: it shares caches with the model, and
# cores with OpenMP's threads, which spin (chosen: promises of ×1.4 to ×1.9 had brought ×0.64 to ×0.88)
ALONE_LONGER = 1.4
SMALL = 0.3  # share of that error that even a tiny predicted effect keeps
# Of the rest of a step, what goes with all that is cured: its caches, allocator and threads were disturbed by
# it (chosen: of 45 twins without more workers promises are 18 % off without it, 12 % with it; median).
DISTURBED = 0.13


def step_after(scenario: Scenario, change: Change) -> float:
    """Predicted seconds per step."""
    return step_seconds(apply(change, scenario))


def predict(diagnosis: Diagnosis, change: Change, basis: str = "replay") -> Speedup:
    """Speedup of the steady step; the interval widens with the replay's misfit and with the effect's size.

    Where other processes use cores, the interval includes the case that they end. The part of the measured
    step that the replay cannot explain may go with the change, or stay.
    """
    scenario = diagnosis.scenario
    assert scenario is not None, "a prediction needs a steady window"
    likely = speedup_of(scenario, change)
    low, high = _ends(diagnosis, scenario, change, likely)
    return widened(diagnosis, low, likely, high, basis)


def cautious(diagnosis: Diagnosis, change: Change) -> float:
    """The least speedup under what is assumed of other processes, workers and what the replay lacks."""
    scenario = diagnosis.scenario
    assert scenario is not None, "a prediction needs a steady window"
    return _ends(diagnosis, scenario, change, speedup_of(scenario, change))[0]


def _ends(diagnosis: Diagnosis, scenario: Scenario, change: Change, likely: float) -> tuple[float, float]:
    free = scenario if change.strangers is not None else replace(scenario, strangers=0.0)
    found = [likely, speedup_of(free, change)]
    found.append(diagnosis.step_s / max(step_after(scenario, change), 1e-12))
    if scenario.workers == 0 and change.workers and scenario.making_threads > 1:
        found.append(speedup_of(scenario, replace(change, cpu=change.cpu * ALONE_LONGER)))
    return min(found), max(found)


def speedup_of(scenario: Scenario, change: Change) -> float:
    """Step time over predicted step time."""
    speedup = step_seconds(scenario) / max(step_after(scenario, change), 1e-12)
    same = all(getattr(change, name) is None for name in SETTINGS)
    works = change.straggler == 1.0  # waiting for a slower rank disturbs nothing
    if not same or not works or scenario.workers:
        return speedup
    # The rest of the step gains, too, where the loop no longer does what slowed it down.
    return speedup / (1 - DISTURBED * max(0.0, 1 - 1 / max(speedup, 1e-9)))


def widened(diagnosis: Diagnosis, low: float, likely: float, high: float, basis: str) -> Speedup:
    """The interval, widened by the model's own error."""
    error = max(FLOORS[basis], min(1.0, diagnosis.model_error))
    size = SMALL + (1 - SMALL) * min(1.0, abs(log(max(likely, 1e-9))) / log(2))
    width = exp(error * size)
    return Speedup(low / width, likely, high * width, basis)


def merge(first: Change, second: Change) -> Change:
    """Both changes together: settings of the later one win, a cost is scaled by the stronger of the two."""
    values = {}
    for one in fields(Change):
        mine, other = getattr(first, one.name), getattr(second, one.name)
        if one.name in SETTINGS:
            values[one.name] = mine if other is None else other
        else:
            values[one.name] = min(mine, other) if max(mine, other) <= 1 else max(mine, other)
    return Change(**values)


INDEXING_S = 2e-5  # CPU per sample below which a data set only indexes memory (chosen)
INDEXING_SAMPLES = 64  # and batches at least this large, or the cost comes from elsewhere (chosen)
DEVICE_FILLED = 0.7  # NVML busy share, below which a device is underfilled [SageMaker Debugger]
ODD = 1 + NOTICED  # gain of removing a device's problem, from which that is the cause, not its computing
LEAST_LEFT = 0.1  # of the device's time by one cure: a larger promise is not credible (chosen)
FUSED = 0.5  # of what calling small operators costs is left where they are merged (chosen)
CORES_FREE = 1e6

# cause -> the resource that is short; ``input.wait`` is a latency: no faster resource would help
RESOURCE = {
    "input.preprocess": "cpu", "input.collate": "cpu", "input.indexing": "cpu", "input.ipc": "cpu",
    "input.worker_startup": "cpu", "input.oversubscribed": "cpu", "input.storage": "io",
    "device.compute": "gpu", "device.underfilled": "gpu", "device.transfer": "gpu", "device.memory": "gpu",
    "device.throttled": "gpu", "device.shared": "gpu", "host.sync": "",
    "input.network": "io", "input.wait": "latency", "model.compute": "cpu", "host.gc": "cpu",
    "host.checkpoint": "", "host.logging": "", "host.python": "cpu", "host.launch": "cpu",
    "host.memory": "", "host.evaluation": "", "model.threads": "cpu", "comm.allreduce": "comm",
    "comm.straggler": "comm",
}  # fmt: skip


def gains(base: Scenario, host: HostLoad) -> dict[str, float | None]:
    """Step time over the step time with each resource infinitely fast."""
    stored = base.shares.stored
    cpu = Change(
        cpu=0, collate=0, ipc=0, compute=0, python=0, launch=0, sampling=0, collect=0, startup=0,
        lead_in=0, paging=0, cores=CORES_FREE, checkpoint=stored, logging=stored,
    )  # fmt: skip
    io = Change(storage=0, network=0, memory=0, checkpoint=1 - stored, logging=1 - stored)
    device = Change(idle=0, device=0, copying=0, allocating=0)
    gpu = gain(base, device) if host.accelerated else None
    ranks = any(cost.comm + cost.straggler > 0 for cost in base.costs)
    comm = gain(base, Change(comm=0, straggler=0)) if ranks else None
    return {"cpu": gain(base, cpu), "io": gain(base, io), "gpu": gpu, "comm": comm}


def gain(base: Scenario, change: Change) -> float:
    """Step time over predicted step time."""
    return _gain_of(base, apply(change, base))


def _gain_of(base: Scenario, other: Scenario) -> float:
    """The same for another scenario; at most 1000, since no step takes zero time."""
    before, after = step_seconds(base), step_seconds(other)
    return min(1e3, before / max(after, before * 1e-3, 1e-12)) if before > 0 else 1.0


def cause_gains(
    base: Scenario,
    inputs: Inputs,
    loader: Loader | None,
    host: HostLoad,
    held: float = 0.0,
    device: DeviceView | None = None,
) -> dict[str, float]:
    """Every cause that can be removed alone, with what that would gain."""
    if is_indexing(inputs, loader):
        making = {"input.indexing": Change(cpu=0, collate=0, sampling=0)}
    else:
        making = {
            "input.preprocess": Change(cpu=0),
            "input.collate": Change(collate=0),
            "input.indexing": Change(sampling=0),
        }
    changes = making | {
        "input.storage": Change(storage=0),
        "input.network": Change(network=0),
        "input.wait": Change(wait=0),
        "input.worker_startup": Change(startup=0),
        "model.compute": Change(compute=0, idle=_idle_without_model(base)),
        "host.python": Change(python=0, idle=1 - base.shares.resting),
        "host.launch": Change(launch=FUSED),
        "host.memory": Change(memory=0, paging=0),
        "comm.allreduce": Change(comm=0),
        "comm.straggler": Change(straggler=0),
        "host.checkpoint": Change(checkpoint=0),
        "host.logging": Change(logging=0),
        "host.gc": Change(collect=0),
    }
    found = {cause: gain(base, change) for cause, change in changes.items()}
    # Moving less wakes less often, but the wait for a core at each wake-up is due to what keeps cores busy.
    moved = apply(Change(ipc=0), base)
    kept = replace(moved.transport, waking=base.transport.waking)
    found["input.ipc"] = _gain_of(base, replace(moved, transport=kept))
    if host.accelerated:
        found |= device_gains(base, host, device)
    pools = gain(base, Change(cpu=1 / helper_threads(base, inputs, host)))
    found["input.oversubscribed"] = max(
        fewer_workers(base), shared_out(base), uncrowded(base, held), pools, without_feeders(base)
    )
    return found


def _idle_without_model(base: Scenario) -> float:
    """What is left of the loop's sleep without the model. It sleeps there for other threads of the model,
    which compute or want a core themselves: no clock tells how much is which, half is taken."""
    return 1 - base.shares.asleep / 2


def helper_threads(base: Scenario, inputs: Inputs, host: HostLoad) -> float:
    """CPU of batch makers over that of their fetching threads, where other threads oversubscribe cores."""
    own = host.helped if base.feeders.count else 1.0
    return max(own, crowding(inputs, base.workers, base.transport.serialise))


def too_many_feeders(base: Scenario) -> bool:
    """Whether more of the job's own threads and processes make batches than there are cores."""
    return base.feeders.count > base.cores + 0.5


# Causes that are removed together: where input and model take turns, or ranks wait for each other, the larger
# side is the bottleneck, however many causes it divides into.
SIDES = {
    "input": tuple(cause for cause in RESOURCE if cause.startswith("input.")),
    "model": ("model.compute", "host.launch"),
    "ranks": ("comm.allreduce", "comm.straggler"),
}


def side_gains(base: Scenario) -> dict[str, float]:
    """What removing all causes of a side together would gain."""
    return {
        "input": gain(
            base, Change(cpu=0, collate=0, sampling=0, storage=0, network=0, wait=0, ipc=0, startup=0)
        ),
        "model": gain(base, Change(compute=0, launch=FUSED, idle=_idle_without_model(base))),
        "ranks": gain(base, Change(comm=0, straggler=0)),
    }


def side_of(cause: str) -> str:
    """The side that a cause belongs to; itself where it stands alone."""
    return next((side for side, causes in SIDES.items() if cause in causes), cause)


def device_gains(base: Scenario, host: HostLoad, view: DeviceView | None) -> dict[str, float]:
    """The same for causes that only an accelerator has.

    ``device.compute`` is one only where removing throttling, other processes, low occupancy or allocations
    gains less than ``ODD``, and copies or readbacks less than half of a free device.
    """
    odd = {cause: gain(base, change) for cause, change in troubles(base, host, view).items()}
    found = {cause: value for cause, value in odd.items() if value >= ODD}
    whole = gain(base, Change(idle=0, device=0))
    if is_clocked(base):
        # Running ahead also hides the allocator's part: it gains more than removing that part alone.
        waiting = view is None or view.beat is None or view.beat.sync_s >= view.beat.memory_s
        waits = {
            "device.transfer": gain(base, Change(copying=0)),
            "host.sync": gain(base, Change(ahead=1.0)) if waiting else 1.0,
        }
        kept_idle = max(waits.values()) >= max(ODD, MOST * whole)
        plain = {} if kept_idle or odd.keys() & found.keys() else {"device.compute": whole}
        return found | waits | plain
    if base.undivided:
        found |= {"device.transfer": gain(base, Change(copying=0))}
    filled = host.device_busy is None or host.device_busy >= DEVICE_FILLED
    if odd.keys() & found.keys():
        return found
    return found | {"device.compute" if filled else "device.underfilled": whole}


def is_clocked(base: Scenario) -> bool:
    """Whether the replay knows the device's own time, rather than how long the loop was not elsewhere."""
    return not base.undivided and any(cost.device > 0 for cost in base.costs)


def scaled_device(base: Scenario, host: HostLoad, factor: float) -> Change:
    """The device's own work made to take ``factor`` of its time. Without its clock only the share in which
    the driver saw a kernel resident is known to be its own."""
    factor = max(LEAST_LEFT, factor)
    if is_clocked(base):
        return Change(device=factor)
    known = 1 - (host.device_busy or 0.0) * (1 - factor)
    return Change(idle=known, device=known)


def troubles(base: Scenario, host: HostLoad, view: DeviceView | None) -> dict[str, Change]:
    """Causes for which the device is slower than it could be at the same work, and what takes each away."""
    if view is None:
        return {}
    driver, found = view.driver, {}
    if driver.our_share is not None:
        found["device.shared"] = scaled_device(base, host, driver.our_share)
    slow = clock_loss(view)
    if slow is not None and slow < NEARLY_ALL:
        found["device.throttled"] = scaled_device(base, host, slow)
    filled = view.facts.sm_active_share
    if filled is not None and filled < MOST:
        found["device.underfilled"] = scaled_device(base, host, filled)
    if view.beat is not None and view.beat.memory_s > 0:
        found["device.memory"] = Change(allocating=0.0)
    return found


def uncrowded(base: Scenario, held: float) -> float:
    """What the loop would gain if its own threads and the workers were not in each other's way: the share of
    the step for which it was ready without a core, less the part of other processes, and at most as long as
    workers were on a core."""
    crowd = base.workers + base.threads
    if base.workers == 0 or base.threads <= 1.0 or crowd <= base.cores + 0.5:
        return 1.0
    busy = busy_workers(base)
    ours = busy / max(busy + base.strangers, 1e-12)
    return 1 / max(0.1, 1 - min(ours * held, busy))


def without_feeders(base: Scenario) -> float:
    """What the loop would gain if batch makers never took the core that it wants, where there are more
    makers than cores."""
    return _gain_of(base, replace(base, crowded=0.0)) if too_many_feeders(base) else 1.0


def fewer_workers(base: Scenario) -> float:
    """What the best smaller number of workers would gain where loop and workers oversubscribe the cores."""
    if base.workers < 2 or base.workers + base.threads <= base.cores + 0.5:
        return 1.0
    return max(gain(base, Change(workers=count)) for count in range(1, base.workers))


def shared_out(base: Scenario) -> float:
    """What the best split of the cores between workers and the model's threads would gain."""
    if base.workers == 0 or ceil(base.threads) < 2 or base.workers + base.threads <= base.cores + 0.5:
        return 1.0
    longer = one_thread_longer(base.threads)
    return gain(base, split_change(base, *best_split(base, longer), longer))


def is_indexing(inputs: Inputs, loader: Loader | None) -> bool:
    """Whether fetching only picks rows out of memory, one by one."""
    if loader is None or loader.dataset_kind != "map" or inputs.samples < INDEXING_SAMPLES:
        return False
    if loader.batched_getitems or inputs.decode > 0 or (inputs.opens or 0) > 0:
        return False
    if not loader.collate.startswith("default_co") and inputs.collate > 0.5 * inputs.cpu:
        return False  # the user's own collate is what takes the time
    per_sample = (inputs.cpu - inputs.collate) / inputs.samples
    quiet = inputs.storage + inputs.network + inputs.wait < 0.1 * max(inputs.wall, 1e-9)
    return quiet and per_sample < INDEXING_S
