"""All ranks wait for the slowest of them.

## What it means
One rank needs longer for its step than the others, which have nothing to do until it joins the exchange.

## Why it costs
An exchange cannot end before its last rank arrives, so each step takes what the slowest rank takes: its own
work, its data, whatever it alone does (logging, evaluation, a slower machine).

## How it is measured
What each rank sleeps in exchanges, step by step. Who comes last sleeps least; what the others sleep beyond
that is waiting for it. Durations of each rank's own clock are compared, never instants of two clocks. On
accelerators, where waiting spins in a kernel, the profiled steps of all ranks are compared. Where stacks see
the slowest rank compute in a call of the loop that the fastest spares, that call is named.

## Thresholds
The slowest rank's own time, without exchanges and without waiting for a core, is 10 % above the mean (ours,
[catalogue F55]), and ranks sleep 5 % of their step on slower ones (ours). The same rank is slowest in 60 % of
the steps: a matter of that rank; otherwise of batches that differ in cost (ours). Profiled steps are too few
to tell the two apart: the first is assumed. The latter is not said where ranks wait for a core for 5 % of the
step (ours), or strangers hold half a core [catalogue F57]. A call is named that has a tenth of the slowest
rank's samples (ours, as much as makes a rank the slowest); the finding then speaks on crowded cores, too.

## When this advice is wrong
Ranks that share cores with strangers come late by turns, and no sampler cures that: time without a core is
left out for this reason. Work that only one rank does (checkpoints) is better made cheaper than shared.

## Prediction
Replay with what is left of the waiting when every rank does the mean rank's work; on the slowest rank, with
what is left of the making of its batches then.

## References
torch.utils.data.distributed.DistributedSampler; Amazon SageMaker Debugger, "LoadBalancing" rule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

from ..analyse.loop_parts import training_samples
from ..analyse.ranks import Balance, all_ranks, compare, longest_loops, rank_steps, slow_ranks
from ..analyse.steps import SAMPLES_AT_LEAST, mean_in
from ..model.code import Location
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Stack
from ..model.loops import LATE_FOR, LoopBody, RankSteps
from ..model.report import Evidence, Fix
from ..model.run import Process
from .parts.entry import Case, Entry
from .parts.lines import STACKS
from .parts.ranks import COMPARED, alone, compared, exchange_evidence, line_of, pair, pid_of, share_of

ID = "rank-straggler"
UNEVEN = 1.1  # slowest rank's own time over the mean one's [catalogue F55, ours]
ASLEEP = 0.05  # of the step, on average over ranks, spent on waiting for slower ones (ours)
SAME = 0.6  # of the steps in which one rank is the slowest: it is that rank [catalogue F55, ours]
LATE_AT_MOST = 4  # lines of evidence
QUEUED = 0.05  # of the step without a core, from which nothing is said of ranks late by turns (ours)
FOREIGN_CORES = 0.5  # taken by strangers, the same [catalogue F57]
# of the slowest rank's samples computing in one call, which take the fastest rank less than a tenth of that:
# the former does it for all (ours)
ALONE, SPARED = 0.1, 0.1
WRITING = ("checkpoint", "logging")

EQUAL = """\
sampler = DistributedSampler(dataset, shuffle=True)    # equal counts; set_epoch(epoch) every epoch
# then equal cost: deal out the costliest samples first, by turns
order = sorted(range(len(dataset)), key=cost, reverse=True)
mine = order[rank::world_size]"""
BALANCE = Proposal(
    id="balance-ranks",
    title="give every rank the same amount of work",
    fix=Fix("share samples out by cost; look at what the slowest rank does alone", EQUAL),
    effort="hours",
    risk="a rank on a slower machine needs fewer samples, not as many",
)
PARTED = """\
part = {call}(samples[rank::world_size])               # each rank its part
distributed.all_reduce(part)                            # a few numbers; or do it less often"""
ALIKE = """\
# put samples of like cost into the batches that all ranks take in the same step
order = sorted(range(len(dataset)), key=cost)
steps = [order[place : place + batch * world_size] for place in range(0, len(order), batch * world_size)]
random.Random(epoch).shuffle(steps)
mine = [step[rank::world_size] for step in steps]      # DataLoader(..., batch_sampler=mine)"""
BUCKET = Proposal(
    id="bucket-by-cost",
    title="let all ranks take batches of like cost in the same step",
    fix=Fix("group samples by length or size before they are shared out", ALIKE),
    effort="hours",
    risk="batches are less mixed than in a plain shuffle",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when ranks sleep on slower ones whose own work takes longer."""
    if alone(diagnosis):
        return None
    balance = compare(diagnosis.profile)
    if diagnosis.scenario is None or balance is None:
        return Abstention(ID, "what two or more ranks sleep in exchanges, step by step")
    waiting = fmean(balance.behind.values())
    uneven = balance.uneven >= UNEVEN and waiting >= ASLEEP * diagnosis.step_s
    steady = balance.slowest is None or balance.slowest >= SAME
    call = _alone_in(diagnosis, balance) if uneven else None
    if not uneven or (not steady and call is None and _crowded(diagnosis, balance)):
        late = _late(diagnosis) if diagnosis.profile.elsewhere else []  # the report is about one of many
        return Finding(ID, "comm.straggler", late, [], line_of(diagnosis)) if late else None
    evidence = _evidence(diagnosis, balance)
    if call is not None:
        place, share = call
        text = f"share of the slowest rank's samples in {place.function}, which the fastest rank spares"
        evidence.insert(1, Evidence(text, "alone_share", share, STACKS))
    proposals = _proposals(diagnosis, balance, steady, call)
    return Finding(ID, "comm.straggler", evidence, proposals, call[0] if call else line_of(diagnosis))


def _alone_in(diagnosis: Diagnosis, balance: Balance) -> tuple[Location, float] | None:
    """The user's function, called by the loop, in which the slowest rank computes and the fastest not."""
    slow, fast = (pick(balance.busy, key=lambda pid: balance.busy[pid]) for pick in (max, min))
    mine, others = (_computing(diagnosis, pid) for pid in (slow, fast))
    if mine is None or others is None:
        return None
    only = {place: share for place, share in mine.items() if others.get(place, 0.0) <= SPARED * share}
    best = max(only, key=lambda place: only[place], default=None)
    return (best, only[best]) if best is not None and only[best] >= ALONE else None


def _computing(diagnosis: Diagnosis, pid: int) -> dict[Location, float] | None:
    """Shares of a rank's samples in which it computes in functions that its loop calls, by their place;
    checkpoints and logs are one rank's by design. None: too few samples tell."""
    loop = longest_loops(diagnosis.profile).get(pid)
    known = loop is not None and loop.body is not None
    samples = training_samples(diagnosis.profile, pid, loop.body) if loop and known else []
    total, found = sum(one.stack.count for one in samples), Counter[Location]()
    if total < SAMPLES_AT_LEAST:
        return None
    for one in samples:
        if one.called is not None and one.part not in WRITING:
            place = replace(one.called, line=one.line or one.called.line)
            found[place] += min(one.stack.count, one.stack.running or 0)
    return {place: count / total for place, count in found.items()}


def _crowded(diagnosis: Diagnosis, balance: Balance) -> bool:
    """Whether ranks come late by turns for want of cores, whatever their batches cost."""
    foreign = diagnosis.host.foreign_cores or 0.0
    return balance.queued > QUEUED * diagnosis.step_s or foreign > FOREIGN_CORES


def _evidence(diagnosis: Diagnosis, balance: Balance) -> list[Evidence]:
    names = {one.pid: _name(one, diagnosis) for one in all_ranks(diagnosis.profile)}
    ranked = sorted(balance.busy, key=lambda pid: -balance.busy[pid])
    parts = (("slowest", ranked[0]), ("fastest", ranked[-1]))
    source = compared(balance)
    said = [
        Evidence(f"own time per step of the {which} rank ({names.get(pid, f'process {pid}')})",
                 f"{which}_rank_s", balance.busy[pid], source)
        for which, pid in parts
    ]  # fmt: skip
    if balance.slowest is not None:
        said.append(Evidence("share of steps in which the same rank is the slowest", "slowest_rank_share",
                             balance.slowest, source))  # fmt: skip
    return [*_late(diagnosis), *said, *exchange_evidence(diagnosis)]


def _name(one: RankSteps, diagnosis: Diagnosis) -> str:
    named = f"process {one.pid}" if one.rank is None else f"rank {one.rank}"
    return f"{named} on {one.host}" if diagnosis.profile.elsewhere else named


def _late(diagnosis: Diagnosis) -> list[Evidence]:
    """Ranks that come late step after step, and what they spend the time in."""
    late = (slow_ranks(all_ranks(diagnosis.profile)) or [])[:LATE_AT_MOST]
    said = [
        f"{_name(one.rank, diagnosis)} comes after the median rank, mostly {LATE_FOR[one.cause]}"
        for one in late
    ]
    return [
        Evidence(f"time by which {text}", "late_rank_s", one.beyond_s, COMPARED)
        for one, text in zip(late, said, strict=True)
    ]


def _proposals(
    diagnosis: Diagnosis, balance: Balance, steady: bool, call: tuple[Location, float] | None
) -> list[Proposal]:
    """For a rank that waits for slower ones, or for the slowest itself where its data takes longer."""
    mine = balance.behind.get(pid_of(diagnosis) or 0, 0.0)
    if mine <= 0 or share_of(diagnosis, "straggler") <= 0:
        return _less_data(diagnosis, balance)
    left = max(0.0, 1 - fmean(balance.behind.values()) / mine)
    remedy = BALANCE if steady else BUCKET
    if call is not None:
        place, name = call[0], call[0].function
        text = f"let each rank do its part of {name}, which one does while all others wait"
        shared = replace(
            BALANCE, fix=Fix(text, PARTED.format(call=name.rpartition(".")[2]), place), risk="none"
        )
        return [replace(shared, change=Change(straggler=left))]
    return [replace(remedy.at(line_of(diagnosis)), change=Change(straggler=left))]


def _less_data(diagnosis: Diagnosis, balance: Balance) -> list[Proposal]:
    """The rank that comes last for its data, when it has no more to do than the mean rank. Nothing where it
    has a machine of its own, which may be why."""
    pid, wait_s = pid_of(diagnosis), mean_in(diagnosis.steps, "wait")
    late = next(iter(slow_ranks(all_ranks(diagnosis.profile)) or ()), None)
    if late is None or late.rank.pid != pid or late.cause != "data" or wait_s <= 0:
        return []
    if diagnosis.profile.elsewhere:
        return []
    left = max(0.0, 1 - (balance.busy[pid] - fmean(balance.busy.values())) / wait_s)
    change = Change(cpu=left, collate=left, storage=left, network=left, wait=left)
    return [replace(BALANCE.at(line_of(diagnosis)), change=change)]


SLOW = StepCost(0.01, comm=0.001, straggler=0.01)


def _one_of_two() -> Diagnosis:
    """The other rank was not seen."""
    known = pair(SLOW, 0.01)
    loops, processes = known.profile.loops[:1], known.profile.processes[:1]
    return replace(known, profile=replace(known.profile, loops=loops, processes=processes))


def _on_busy_cores(late: Diagnosis) -> Diagnosis:
    return replace(late, host=replace(late.host, foreign_cores=1.0))


def _validates(others: int) -> Diagnosis:
    """The other rank validates for all; of 60 samples there this one computes in so many."""
    known = pair(SLOW, 0.01)
    stacks = [
        Stack(pid, "trainer", "MainThread", ["main (/x/train.py:9)", f"{name} (/x/train.py:3)"], 60, running)
        for pid, name, running in ((2, "validate", 60), (2, "Net.forward", 30), (1, "validate", others),
                                   (1, "Net.forward", 30))
    ]  # fmt: skip
    body = LoopBody("/x/train.py", "main", 5, 12)
    loops = [replace(one, body=body) for one in known.profile.loops]
    return replace(known, loop=loops[0], profile=replace(known.profile, stacks=stacks, loops=loops))


def _now_and_then() -> Diagnosis:
    """It validates in every fourth step; in those between, this one comes last by a little."""
    known = _validates(0)
    tables = [
        replace(one.table, wall_s=[0.05] * 60, exchange_s=[first, *[then] * 3] * 15)
        for one, (first, then) in zip(known.profile.loops, ((0.041, 0.001), (0.001, 0.002)), strict=True)
    ]
    loops = [replace(one, table=table) for one, table in zip(known.profile.loops, tables, strict=True)]
    return replace(known, loop=loops[0], profile=replace(known.profile, loops=loops))


def _waits_for_data(elsewhere: bool) -> Diagnosis:
    """This rank's batches take 20 ms longer than the other one's, which may run on another machine."""
    known = pair(StepCost(0.05, comm=0.001), -0.02)
    assert known.scenario is not None
    waits = zip(known.profile.loops, (0.03, 0.01), strict=True)
    loops = [replace(one, table=replace(one.table, wait_s=[wait] * 60)) for one, wait in waits]
    profile = replace(known.profile, loops=loops)
    if elsewhere:
        other = replace(rank_steps(profile, loops[1]), host="other", pid=9)
        profile = replace(profile, loops=loops[:1], elsewhere=[other])
    steps = [replace(one, wait=0.03) for one in known.steps]
    scenario = replace(known.scenario, works=(BatchCost(0.03),))
    return replace(known, profile=profile, loop=loops[0], steps=steps, scenario=scenario)


def _single() -> Diagnosis:
    known = pair(StepCost(0.01), model=None, passes=())
    only = [Process(1, 0, "trainer", 0.0)]
    return replace(known, profile=replace(known.profile, loops=known.profile.loops[:1], processes=only))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    by_turns = pair(replace(SLOW, straggler=0.005), 0.005, rotating=True)
    return (
        Case("the other rank needs 10 ms more", pair(SLOW, 0.01), "fires", "balance-ranks"),
        Case("the other rank alone validates", _validates(1), "fires", "balance-ranks"),
        Case("it validates now and then", _now_and_then(), "fires", "balance-ranks"),
        Case("both validate, it the longer", _validates(40), "fires", "balance-ranks"),
        Case("this rank's data takes longer", _waits_for_data(False), "fires", "balance-ranks"),
        Case("it does, on a machine of its own", _waits_for_data(True), "fires"),
        Case("now one, now the other", by_turns, "fires"),
        Case("the same, on busy cores", _on_busy_cores(by_turns), "silent"),
        Case(
            "it validates now and then, on busy cores",
            _on_busy_cores(_now_and_then()),
            "fires",
            "balance-ranks",
        ),
        Case("both need the same", pair(StepCost(0.01, comm=0.005)), "silent"),
        Case("there is one rank", _single(), "silent"),
        Case("the other rank was not seen", _one_of_two(), "abstains"),
    )


FINDING = Entry(ID, "comm.straggler", examine, remedies=(BALANCE, BUCKET))
