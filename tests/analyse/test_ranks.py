"""What ranks wait for is split into the exchange itself and the slower ones, without comparing clocks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.ranks import compare
from bottleneck_doctor.analyse.steady import choose_loop
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.devices import device_run
from tests.analyse.runs import own_loop, run_of

EXCHANGE_S = 0.004
STEPS = 120


def ranks(*own_s: list[float], exchange: float = EXCHANGE_S, every: int = 1, wait: float = 0.0) -> Profile:
    """Ranks whose own times per step are given; each step ends when the last of them is through. Their clocks
    begin at different instants. ``every`` = steps to a row; ``wait`` = the last rank's data wait."""
    base = run_of(compute=0.001, steps=STEPS)
    steps = [max(times) + exchange for times in zip(*own_s, strict=True)]
    loops, processes = [], []
    for rank, mine in enumerate(own_s):
        rows = range(0, len(mine), every)
        walls = [sum(steps[place : place + every]) for place in rows]
        own = [sum(mine[place : place + every]) for place in rows]
        data = [wait * every if rank == len(own_s) - 1 else 0.0 for _ in rows]
        count = len(walls)
        table = replace(
            base.loops[0].table,
            t=[100.0 * rank + sum(walls[: place + 1]) for place in range(count)], steps=[every] * count,
            epoch=[0] * count, wall_s=walls, wait_s=data, cpu_s=[0.0] * count, wait_cpu_s=[0.0] * count,
            process_cpu_s=[0.0] * count, runq_s=[0.0] * count, wait_runq_s=[0.0] * count,
            backward_s=[0.0] * count, optimizer_s=[0.0] * count, checkpoint_s=[0.0] * count,
            logging_s=[0.0] * count, collect_s=[0.0] * count, copy_s=[0.0] * count, ready=[None] * count,
            set_aside=[""] * count,
            exchange_s=[wall - busy for wall, busy in zip(walls, own, strict=True)],
        )  # fmt: skip
        pid = rank + 1
        loops.append(replace(base.loops[0], pid=pid, table=table, wall_s=sum(walls), wait_s=sum(data)))
        processes.append(Process(pid, 0, "trainer", 0.0, rank=rank, world_size=len(own_s), torch_threads=1))
    return replace(base, loops=loops, processes=processes)


def even(seconds: float) -> list[float]:
    return [seconds] * STEPS


def device_ranks(*beats: dict[str, float]) -> Profile:
    """Ranks whose exchanges are kernels: what each one's device did in a step of 20 ms."""
    runs = [device_run(**beat) for beat in beats]
    devices = [replace(one.device, pid=rank + 1) for rank, one in enumerate(runs) if one.device is not None]
    return replace(
        runs[0],
        loops=[replace(one.loops[0], pid=rank + 1) for rank, one in enumerate(runs)],
        processes=[
            replace(one.processes[0], pid=rank + 1, rank=rank, world_size=len(runs))
            for rank, one in enumerate(runs)
        ],
        device=devices[0],
        other_devices=devices[1:],
    )


QUICK = {"busy_s": 0.008, "collective_s": 0.012, "host_s": 0.004}
SLOW = {"busy_s": 0.018, "collective_s": 0.002, "host_s": 0.004}


@pytest.mark.parametrize("order", [(QUICK, SLOW), (SLOW, QUICK)])
def test_kernels_that_wait_for_a_slow_rank_are_not_the_exchange(order: tuple[dict[str, float], ...]) -> None:
    profile = device_ranks(*order)
    balance = compare(profile)
    assert balance is not None
    quick = order.index(QUICK) + 1
    assert balance.exchange == pytest.approx(0.002)
    assert balance.behind == pytest.approx({quick: 0.01, 3 - quick: 0.0})
    report = write_up(profile)
    assert report.verdict.cause == "comm.straggler"
    assert report.remedies[0].id == "balance-ranks"
    told = {one.metric for one in report.findings[0].evidence if one.source == "profiled steps of all ranks"}
    assert told >= {"slowest_rank_s", "fastest_rank_s"}
    assert "slowest_rank_share" not in told  # few steps do not tell whether it is always the same one
    assert report.remedies[0].predicted_speedup.likely == pytest.approx(20 / 15, rel=0.1)


def test_kernels_that_wait_as_long_on_all_ranks_are_the_exchange() -> None:
    assert diagnose(device_ranks(QUICK, QUICK)).verdict.cause == "comm.allreduce"


def test_a_rank_that_waits_for_data_is_reported_rather_than_those_that_wait_for_it() -> None:
    starved = {"busy_s": 0.007, "input_s": 0.011, "collective_s": 0.002, "host_s": 0.004}
    profile = device_ranks(QUICK, starved)
    assert choose_loop(profile) is profile.loops[1]


def test_profiled_steps_of_different_lengths_are_not_compared() -> None:
    assert compare(device_ranks(QUICK, {**SLOW, "busy_s": 0.03})) is None


def test_even_ranks_wait_for_the_exchange_alone() -> None:
    balance = compare(ranks(even(0.02), even(0.02)))
    assert balance is not None
    assert balance.exchange == pytest.approx(EXCHANGE_S)
    assert list(balance.behind.values()) == pytest.approx([0.0, 0.0], abs=1e-9)
    assert balance.uneven == pytest.approx(1.0)


def test_the_others_wait_for_a_slow_rank_and_it_does_not() -> None:
    balance = compare(ranks(even(0.01), even(0.03), even(0.01)))
    assert balance is not None
    assert balance.exchange == pytest.approx(EXCHANGE_S)
    assert balance.behind == pytest.approx({1: 0.02, 2: 0.0, 3: 0.02})
    assert balance.slowest == 1.0
    assert balance.uneven == pytest.approx(0.03 / (0.05 / 3))
    assert balance.shares(1) == pytest.approx((0.004 / 0.024, 0.02 / 0.024))


def test_ranks_that_are_slow_by_turns_wait_for_each_other() -> None:
    chance = random.Random(7)
    slow = [chance.choice((0.01, 0.03)) for _ in range(STEPS)]
    balance = compare(ranks(slow, [0.04 - one for one in slow]))
    assert balance is not None
    assert balance.exchange == pytest.approx(EXCHANGE_S)
    assert sum(balance.behind.values()) == pytest.approx(0.02)
    assert balance.slowest < 0.65


def test_rows_of_several_steps_are_compared_where_they_end_together() -> None:
    seldom, often = (ranks(even(0.01), even(0.03), every=every) for every in (4, 1))
    mixed = replace(often, loops=[often.loops[0], seldom.loops[1]])
    balance = compare(mixed)
    assert balance is not None
    assert balance.behind == pytest.approx({1: 0.02, 2: 0.0}, abs=1e-9)


def test_steps_set_aside_on_any_rank_are_left_out() -> None:
    run = ranks(even(0.01), even(0.03))
    run.loops[1].table.set_aside[40] = "instrument"
    run.loops[0].table.exchange_s[40] = 5.0
    balance = compare(run)
    assert balance is not None
    assert balance.behind[1] == pytest.approx(0.02)


def test_a_rank_that_is_late_for_want_of_a_core_is_not_slow() -> None:
    run = ranks(even(0.01), even(0.03))
    run.loops[1].table.runq_s[:] = [0.02] * STEPS
    balance = compare(run)
    assert balance is not None
    assert balance.behind == pytest.approx({1: 0.0, 2: 0.0}, abs=1e-9)
    assert balance.shares(1) == pytest.approx((0.004 / 0.024, 0.0), abs=1e-9)
    assert balance.uneven == pytest.approx(1.0)


@pytest.mark.parametrize("seen", [0, 1])
def test_one_rank_alone_is_compared_with_nobody(seen: int) -> None:
    run = ranks(even(0.01), even(0.03))
    assert compare(replace(run, loops=run.loops[seen : seen + 1])) is None
    assert compare(run_of(compute=0.01)) is None


def test_ranks_that_were_not_seen_are_counted() -> None:
    run = ranks(even(0.01), even(0.01))
    processes = [replace(one, world_size=8) for one in run.processes]
    balance = compare(replace(run, processes=processes))
    assert balance is not None
    assert balance.missing == 6


@pytest.mark.parametrize(
    ("own", "exchange", "bound", "cause"),
    [
        ((0.01, 0.01), 0.02, "comm", "comm.allreduce"),
        ((0.01, 0.03), 0.002, "comm", "comm.straggler"),
        ((0.03, 0.01), 0.002, "comm", "comm.straggler"),
        ((0.05, 0.05), 0.001, "balanced", "none"),
    ],
)
def test_the_verdict_names_what_ranks_wait_for(
    own: tuple[float, float], exchange: float, bound: str, cause: str
) -> None:
    verdict = diagnose(ranks(*map(even, own), exchange=exchange)).verdict
    assert (verdict.bound, verdict.cause) == (bound, cause)


def test_a_rank_that_is_late_for_its_data_is_what_the_report_is_about() -> None:
    slow, quick = 0.03, 0.01
    diagnosis = diagnose(ranks(even(quick), even(slow), wait=slow - quick))
    assert diagnosis.loop is not None
    assert diagnosis.loop.pid == 2
    assert diagnosis.wait_s == pytest.approx(slow - quick)


def test_parts_of_the_step_still_sum_to_it() -> None:
    diagnosis = diagnose(ranks(even(0.01), even(0.03)))
    assert sum(part.share for part in diagnosis.budget) == pytest.approx(1.0)
    assert diagnosis.budget[0].part == "waiting for other ranks"


def test_of_loops_without_a_loader_the_rank_that_waits_is_told() -> None:
    slow, waiting = (
        replace(own_loop(STEPS, wall_s=0.03, exchange_s=slept), pid=pid)
        for pid, slept in ((1, 0.001), (2, 0.02))
    )
    run = replace(run_of(), loops=[], outside=[slow, waiting])
    chosen = choose_loop(run)
    assert chosen is not None
    assert chosen.pid == 2
