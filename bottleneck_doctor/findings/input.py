"""How batches reach the training loop: made in the loop itself, waited for, handed over, their indices."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..analyse.attribution import attribute
from ..analyse.hot_lines import Feeders, find_feeders
from ..analyse.inputs import RECEIVED_S, RECEIVED_TENSOR_S, epoch_draws_s, making_of
from ..analyse.loop_without_loader import is_fed_back
from ..analyse.predict import TRIFLE, WORTH, best_setting, gain, is_indexing
from ..analyse.shares import ALL_BUT_NOISE, LARGE_PART, MOST, NOTICED
from ..analyse.verdict import sends
from ..model.code import Location
from ..model.diagnosis import Change, Diagnosis, Finding, Inputs, Proposal, Scenario
from ..model.loops import Loader, Payload
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import (
    LOOKS_AT_LEAST,
    WAIT_SHARE,
    making_s,
    payload_of,
    place_of,
    starved,
    switches,
    takes_turns,
    wait_evidence,
    waits,
)
from .lines import STACKS, WRITE_LESS, hottest_place, line_evidence, write_less
from .registry import dataloader_loop, finding, given, snippet, steady_steps, timed_fetches
from .remedies import (
    FEWER,
    IN_MEMORY,
    MOSTLY,
    PARTLY,
    RESERVE,
    STAGE,
    UNBATCHED,
    WORKERS,
    as_served,
    each,
    in_framework,
    meant,
    more_workers,
    no_workers,
    on_loader,
    priced,
    reserve_cores,
    sharing_cores,
)

# loader-in-main
MORE_THREADS = (2.0, 8.0, 32.0)  # times as many as now: as many as what they wait for serves (chosen)
GIVE_WORKERS = replace(
    WORKERS,
    fix=Fix("give the loader workers and keep them between epochs", WORKERS.fix.snippet),
    risk="memory grows with each worker; random augmentations differ; spawned workers need `__main__`",
)
MOVE_TO_LOADER = Proposal(
    id="workers-auto",
    title="move the making of batches into the data set of a DataLoader with workers",
    fix=Fix("make it the data set's `__iter__`", "DataLoader(DATASET, batch_size=None, num_workers=2)"),
    effort="hours",
    risk="a generator must be divided among workers by hand, or one worker is all that it can have; "
    "random draws come from other streams; memory grows with each worker",
)
MORE_FEEDERS = Proposal(
    id="workers-auto",
    title="fill the queue from several threads: what they sleep in passes side by side",
    fix=Fix("two to four threads that share the samples' order and fill one queue", snippet("input", "FILL")),
    effort="hours",
    risk="batches arrive in another order; what a server or a lock allows one at a time gains nothing",
)
AHEAD = 4  # batches that a background thread keeps ready, as two workers would
THREAD = snippet("input", "THREAD")
PREFETCH = Proposal(
    id="thread-prefetch",
    title="make the next batches in a background thread",
    fix=Fix("wrap the loader, or what makes the batches", THREAD),
    change=Change(workers=1, prefetch=AHEAD, ipc=0.0, startup=0.0),
    apply="hook",
    risk="that code then runs in another thread: what it shares with the loop needs a lock",
)


WAYS = (WRITE_LESS, GIVE_WORKERS, MOVE_TO_LOADER, MORE_FEEDERS, RESERVE, PREFETCH, IN_MEMORY, STAGE)


@finding("input.preprocess", *WAYS, needs=(steady_steps,))
def loader_in_main(diagnosis: Diagnosis) -> Finding | None:
    """Fires when a loader without workers makes the loop wait."""
    loader, scenario = diagnosis.loader, given(diagnosis.scenario)
    if diagnosis.without_loader is not None or (loader is not None and loader.kind == "function"):
        return _function_in_main(diagnosis)
    if loader is None or loader.kind != "dataloader" or loader.num_workers:
        return None
    if not waits(diagnosis) or is_indexing(diagnosis.inputs, loader):
        return None
    best = best_setting(scenario)
    setting = {"num_workers": best.workers, "prefetch_factor": best.prefetch, "persistent_workers": True}
    proposal = replace(
        on_loader(GIVE_WORKERS, loader, "", **setting),
        title=f"make batches in {best.workers} worker process{'es' if best.workers > 1 else ''}",
        change=best.change,
    )
    evidence = [
        Evidence("the loader has num_workers=0", "num_workers", 0.0, "DataLoader arguments"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    proposals = [
        *reserve_cores(diagnosis),
        as_served(diagnosis, sharing_cores(diagnosis, proposal, best.workers)),
    ]
    return Finding("loader-in-main", diagnosis.verdict.cause, evidence, proposals, loader.location)


def _function_in_main(diagnosis: Diagnosis) -> Finding | None:
    """The same problem without a DataLoader: a user's function makes each batch between two steps."""
    marked, loop = diagnosis.loader, diagnosis.without_loader
    if not waits(diagnosis) or (marked is not None and marked.kind == "dataloader"):
        return None  # a background thread reads it; the loop does not
    feeders = find_feeders(diagnosis.profile, loop.pid if loop is not None else 0)
    if feeders.stacks:
        return _fed(diagnosis, feeders)
    if (view := diagnosis.device) and view.facts.copies == [] and view.beat and not view.beat.transfer_s:
        return None  # the data are on the device: making a batch only issues kernels
    if is_fed_back(diagnosis.profile, loop):
        return None  # the next batch depends on this step
    scenario = given(diagnosis.scenario)
    place = marked.location if marked is not None else diagnosis.source
    best, one = best_setting(scenario), Change(workers=1, startup=0.0)
    moved = MOVE_TO_LOADER.at(place, UNBATCHED.format(best.workers))
    moved = in_framework(diagnosis, moved, best.workers)
    moved = sharing_cores(diagnosis, moved, best.workers)
    workers = priced(moved, scenario, one, best.change, best.change)
    proposals = [workers, *reserve_cores(diagnosis), *_ahead(diagnosis, place), *_at_hand(diagnosis, place)]
    by = f" by {place.function}" if place is not None and place.function else ""
    evidence = [
        Evidence(f"batches are made{by} in the loop's own thread", "", None, "stack samples"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    if diagnosis.inputs.written:  # which a lock or a journal lets one do at a time
        cure, spent = write_less(diagnosis)
        workers, place = replace(workers, basis="bound", most=gain(scenario, best.change)), cure.fix.location
        proposals, evidence = [cure, workers, *proposals[1:]], [*evidence, spent]
    return Finding("loader-in-main", diagnosis.verdict.cause, evidence, proposals, place)


def _fed(diagnosis: Diagnosis, feeders: Feeders) -> Finding | None:
    """The script's own threads make the batches; if these mostly sleep, more threads overlap their waits."""
    scenario, place = given(diagnosis.scenario), hottest_place(diagnosis)
    if _asleep(diagnosis.inputs) < LARGE_PART or sends(scenario):
        return None  # they compute, and more threads would only compete for the interpreter's lock
    own, threads = max(0.0, diagnosis.step_s - diagnosis.wait_s), feeders.count + feeders.asleep
    left = [max(0.0, (diagnosis.step_s / one - own) / diagnosis.wait_s) for one in MORE_THREADS]
    proposal = priced(MORE_FEEDERS.at(place), scenario, *each(storage=left, network=left, wait=left))
    text = "threads that make batches for the loop, which waits for them in a queue"
    evidence = [
        Evidence(text, "feeders", float(threads), "stack samples"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    proposals = [proposal, *_at_hand(diagnosis, place)]
    return Finding("loader-in-main", diagnosis.verdict.cause, evidence, proposals, place)


def _asleep(inputs: Inputs) -> float:
    """The share of the making of batches that waits for storage, a server or a clock."""
    asleep = inputs.storage + inputs.network + inputs.wait + inputs.reading
    return asleep / max(making_s(inputs), 1e-12)


def _at_hand(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """Remedies for reads from storage: the data in memory, or on a local disk."""
    inputs, scenario = diagnosis.inputs, given(diagnosis.scenario)
    if inputs.written or inputs.storage + inputs.reading < MOST * making_s(inputs):
        return []
    return [
        priced(replace(IN_MEMORY.at(place), basis="bound"), scenario, *each(storage=MOSTLY)),
        priced(STAGE.at(place_of(diagnosis)), scenario, *each(storage=PARTLY)),
    ]


def _ahead(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """A thread that works ahead, where the loop sleeps (on a device) and leaves it the interpreter, or where
    the thread itself would mostly sleep."""
    scenario = given(diagnosis.scenario)
    idle = sum(cost.idle for cost in scenario.costs)
    own = sum(cost.idle + cost.compute for cost in scenario.costs)
    if idle < MOST * own and _asleep(diagnosis.inputs) < ALL_BUT_NOISE:
        return []
    return [replace(PREFETCH.at(place), apply="manual")]


# waiting-on-something-else
ASK_AHEAD = Proposal(
    id="ask-ahead",
    title="ask in a thread, and let the step go on",
    fix=Fix("start it early, take its result where it is needed", snippet("input", "ASKED")),
    effort="hours",
    risk="the request must not depend on what the same step computes",
    basis="bound",
)


@finding("input.wait", WORKERS, PREFETCH, ASK_AHEAD, needs=(steady_steps,))
def waiting_on_something_else(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the loop sleeps on something other than CPU, disk or network."""
    scenario = given(diagnosis.scenario)
    most = gain(scenario, Change(idle=1 - scenario.shares.resting))
    asleep, fetched = 1 - 1 / most, timed_fetches(diagnosis) or _fetching(diagnosis)
    if asleep < NOTICED:
        return fetched
    place = _asleep_at(diagnosis)
    proposals = [replace(ASK_AHEAD.at(place), factor=(1.0, most, most), most=most)]
    evidence = [Evidence("share of the step asleep in lines of the loop", "asleep_share", asleep, STACKS)]
    if isinstance(fetched, Finding):
        proposals, evidence = proposals + fetched.proposals, evidence + fetched.evidence
        place = fetched.location
    return Finding("waiting-on-something-else", "input.wait", evidence, proposals, place)


def _asleep_at(diagnosis: Diagnosis) -> Location | None:
    """The function that the loop called most often where it slept."""
    seen: Counter[Location] = Counter()
    for one in attribute(diagnosis.profile, diagnosis.loop).own:
        stack = one.stack
        if one.own and one.called is not None and not one.logs:
            seen[one.called] += stack.count - (stack.running if stack.running is not None else stack.count)
    return max(seen, key=lambda place: seen[place]) if any(seen.values()) else None


def _fetching(diagnosis: Diagnosis) -> Finding | str | None:
    """The same for sleep inside fetches."""
    inputs, loader, place = diagnosis.inputs, given(diagnosis.loader), place_of(diagnosis)
    if not starved(diagnosis, "input.wait", inputs.wait):
        return None
    if inputs.blocked_samples < LOOKS_AT_LEAST:
        return "what fetching threads sleep on (wait channels)"
    if inputs.other_cpu >= MOST * inputs.wait:
        return None  # it waits for its own pool of threads
    evidence = wait_evidence(diagnosis)
    for kind, seconds in sorted(inputs.waits.items(), key=lambda item: -item[1]):
        evidence.append(Evidence(f"of which asleep in: {kind}", f"fetch_{kind}_s", seconds, "wait channels"))
    proposals = [] if takes_turns(diagnosis) else more_workers(diagnosis)  # which would wait for each other
    if not loader.num_workers:  # a thread sleeps as well as a process does
        ahead = Treatment("ahead", {"where": meant(loader), "depth": AHEAD})
        proposals.append(replace(PREFETCH.at(loader.location), treatments=(ahead,)))
    return Finding("waiting-on-something-else", "input.wait", evidence, proposals, place)


# ipc-overhead
PIPE_BYTES = 1e6  # per batch (chosen)
PIPE_ROOM = 65_536  # what a pipe holds; smaller batches gain nothing from shared memory
ENVELOPE = 150  # bytes through the pipe for a tensor that itself is in shared memory (measured: 122)
TENSORS = 32  # per batch (chosen)
SHARED_S_PER_BYTE = 2.5e-10  # to copy into new shared memory (chosen: half the speed measured for 10 MB)
# of the cost per tensor, shared by name, not by descriptor (measured: µs of loop CPU a tensor)
BY_NAME = 41 / 109
TO_TENSORS = snippet("input", "TO_TENSORS")
RETURN_TENSORS = Proposal(
    id="return-tensors",
    title="let batches leave the workers as tensors",
    fix=Fix("turn arrays into tensors in the collate function", TO_TENSORS),
    apply="hook",
    risk="the loop gets tensors where it got arrays",
)
PACK = Proposal(
    id="pack-tensors",
    title="send one packed tensor instead of many",
    fix=Fix("pack in the collate function, split in the loop", snippet("input", "PACKED")),
    risk="tensors of one type and width pack easily; a dictionary needs one pack per key",
)
SHARE_BY_NAME = Proposal(
    id="sharing-file-system",
    title="share tensors by name instead of by file descriptor",
    fix=Fix("at the top of the script", 'torch.multiprocessing.set_sharing_strategy("file_system")'),
    apply="hook",
    risk="a crash leaves shared memory behind, under /dev/shm/torch_*",
    treatments=(Treatment("sharing", {"strategy": "file_system"}),),
)


@finding("input.ipc", RETURN_TENSORS, PACK, SHARE_BY_NAME, FEWER, needs=(dataloader_loop,))
def ipc_overhead(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when moving a batch costs much and something in the batch can make it cheaper."""
    scenario, payload = given(diagnosis.scenario), payload_of(diagnosis)
    loader = given(diagnosis.loader)
    if not loader.num_workers or gain(scenario, Change(ipc=0.0)) < WORTH:
        return None
    if payload is None:
        return "the content of a batch: none was inspected"
    share = scenario.transport.hand_over / diagnosis.step_s
    if share <= WAIT_SHARE and payload.pipe_bytes <= PIPE_BYTES and payload.tensors <= TENSORS:
        return None
    proposals = _proposals(diagnosis, scenario, payload, loader)
    proposals += no_workers(diagnosis, "moving these batches takes longer than making them")
    pickling_s = payload.serialise_cpu_s
    evidence = [
        Evidence("share of the step in which the loop receives", "hand_over_share", share, "thread CPU"),
        Evidence("tensors in a batch", "batch_tensors", payload.tensors, "inspected batches"),
        Evidence("bytes of a batch through a pipe", "pipe_bytes", payload.pipe_bytes, "pickling hook"),
        Evidence("CPU time for a worker to pickle a batch", "send_cpu_s", pickling_s, "thread CPU"),
        *wait_evidence(diagnosis)[:1],
    ]
    return Finding("ipc-overhead", "input.ipc", evidence, proposals, loader.location) if proposals else None


def _proposals(diagnosis: Diagnosis, scenario: Scenario, payload: Payload, loader: Loader) -> list[Proposal]:
    """Remedies that the batch's content allows, each with the share of the transfer time that is left."""
    now_s = max(scenario.transport.hand_over + scenario.transport.serialise, 1e-12)
    each_s = max(0.0, scenario.transport.hand_over - RECEIVED_S) / max(payload.tensors, 1.0)
    ways: list[tuple[Proposal, float]] = []
    if payload.pipe_bytes - ENVELOPE * payload.tensors > PIPE_ROOM:
        as_arrays = Treatment("arrays", {"where": meant(loader)})
        left_s = RECEIVED_S + RECEIVED_TENSOR_S * (payload.tensors + 1)
        left_s += payload.pipe_bytes * SHARED_S_PER_BYTE
        ways.append((replace(RETURN_TENSORS, treatments=(as_arrays,)), left_s / now_s))
    elif payload.tensors > 2:
        left_s = RECEIVED_S + max(each_s, RECEIVED_TENSOR_S) + payload.tensor_bytes * SHARED_S_PER_BYTE
        ways.append((PACK, left_s / now_s))
    known = switches(diagnosis)
    if payload.tensors > TENSORS and (known is None or known.sharing != "file_system"):
        ways.append((SHARE_BY_NAME, 1 - (1 - BY_NAME) * each_s * payload.tensors / now_s))
    return [
        replace(remedy.at(loader.location), change=Change(ipc=min(1.0, max(0.0, left))))
        for remedy, left in ways
    ]


# sampler-on-critical-path
INDEX_S = 1.3e-7  # per index drawn by torch's own samplers (measured: RandomSampler)
SOURCE = "hook on the loader's sampler"
DRAWN = snippet("input", "DRAWN")
DRAW_ONCE = Proposal(
    id="sampler-vectorise",
    title="draw the indices of an epoch in one call",
    fix=Fix("replace the sampler's loop by one draw with NumPy or torch", DRAWN),
    effort="hours",
    risk="the order of samples changes with another source of random numbers",
)


@finding("input.indexing", DRAW_ONCE, needs=(dataloader_loop,))
def sampler_on_critical_path(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when drawing indices takes a noticeable share of the step or of the epoch."""
    loader, epoch = given(diagnosis.loader), given(diagnosis.scenario).epoch
    if loader.kind != "dataloader":
        return None
    making = making_of(diagnosis.profile, loader)
    if making.draw_s is None:
        return "timed draws of the loader's sampler"
    start_s = epoch_draws_s(making, diagnosis.loop)
    begin_s = start_s / epoch.steps if epoch.steps else 0.0  # per step
    step_share, epoch_share = (one / max(diagnosis.step_s, 1e-12) for one in (making.draw_s, begin_s))
    if step_share < TRIFLE and epoch_share < TRIFLE:
        return None
    gone = Change(sampling=min(1.0, INDEX_S * diagnosis.inputs.samples / max(making.draw_s + begin_s, 1e-12)))
    evidence = [
        Evidence("share of the step that drawing indices takes", "draw_share", step_share, SOURCE),
        Evidence("time to draw the indices of a batch", "draw_s", making.draw_s, SOURCE),
        Evidence("share of the epoch that it begins with, drawing", "epoch_draw_share", epoch_share, SOURCE),
        Evidence("time that each epoch begins with, drawing", "epoch_draws_s", start_s, SOURCE),
        Evidence(f"the sampler is a {loader.sampler or 'sampler of its own'}"),
    ]
    proposal = replace(DRAW_ONCE.at(loader.location), change=gone)
    return Finding("sampler-on-critical-path", "input.indexing", evidence, [proposal], loader.location)
