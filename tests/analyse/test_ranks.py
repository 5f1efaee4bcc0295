"""What ranks wait for, the map of who is late, and profiles of ranks that become one."""

import random
from dataclasses import replace
from itertools import accumulate

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.ranks import COLUMNS_AT_MOST, all_ranks, compare, merge, rank_map, slow_ranks
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import encode_profile
from bottleneck_doctor.model.errors import BadProfile, UsageError
from bottleneck_doctor.model.loops import StepTable
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.devices import device_run
from tests.analyse.runs import run_of

EXCHANGE_S = 0.004
STEPS = 120


def ranks(*own_s: list[float]) -> Profile:
    """Ranks with these own times per step, which ends when the last is through; their clocks differ."""
    base = run_of(steps=STEPS)
    walls = [max(times) + EXCHANGE_S for times in zip(*own_s, strict=True)]
    loops, processes = [], []
    for rank, own in enumerate(own_s):
        slept = [wall - busy for wall, busy in zip(walls, own, strict=True)]
        t = [100.0 * rank + end for end in accumulate(walls)]
        table = replace(base.loops[0].table, t=t, epoch=[0] * STEPS, wall_s=list(walls), exchange_s=slept)
        loops.append(replace(base.loops[0], pid=rank + 1, table=table, wall_s=sum(walls), wait_s=0.0))
        processes.append(
            Process(rank + 1, 0, "trainer", 0.0, rank=rank, world_size=len(own_s), torch_threads=1)
        )
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


def test_a_rank_whose_device_is_held_down_is_named() -> None:
    profile = device_ranks(QUICK, SLOW)
    slow = {"busy_share": 0.99, "sm_clock_mhz": 900.0, "sm_clock_max_mhz": 1980.0, "clocks_hw_thermal": 1.0}
    readings = {f"gpu1_{name}": [value] * len(profile.series.t) for name, value in slow.items()}
    profile.series.values.update(readings)
    others = [replace(one, index=1, driver=1) for one in profile.other_devices]
    report = write_up(replace(profile, other_devices=others))
    first, *_ = report.findings[0].evidence
    assert first.text == "clock of cuda:1 (rank 1), held down by heat (board)"
    assert first.value == pytest.approx(900 / 1980)
    assert [one.id for one in report.remedies] == ["cooling-or-power"], (
        "its batches are no larger than others'"
    )
    told = {one.metric: one for one in report.device.told} if report.device is not None else {}
    assert (told["rank_s"].source, told["slow_clock_share"].text) == ("0: 8 ms, 1: 18 ms", first.text)


Files = dict[str, Profile]


def noisy(seconds: float, seed: int) -> list[float]:
    drawn = random.Random(seed)
    return [seconds * drawn.uniform(0.9, 1.1) for _ in range(STEPS)]


def apart(profile: Profile, hosts: str) -> Files:
    """Each rank in a file of its own, with the same process number, on the host of that letter."""
    return {
        f"profile.{host}.{process.rank}.json": replace(
            profile,
            loops=[replace(loop, pid=1)],
            processes=[replace(process, pid=1)],
            machine=replace(profile.machine, host=host),
        )
        for loop, process, host in zip(profile.loops, profile.processes, hosts, strict=True)
    }


def merged(files: Files) -> Profile:
    return merge(list(files), files.__getitem__)


ONE_LATE = ranks(*(noisy(0.035 if rank == 3 else 0.02, rank) for rank in range(4)))


def spent_in(column: str) -> Profile:
    """The late rank spends 14 ms of each step so."""
    *others, late = ONE_LATE.loops
    table: StepTable = replace(late.table, **{column: [0.014] * STEPS})
    return replace(ONE_LATE, loops=[*others, replace(late, table=table)])


@pytest.mark.parametrize(("column", "cause"), [("", "work"), ("wait_s", "data"), ("runq_s", "cores")])
def test_the_late_rank_is_named_with_what_it_spends_its_time_in(column: str, cause: str) -> None:
    found = merged(apart(spent_in(column) if column else ONE_LATE, "aabb"))
    (late,) = slow_ranks(all_ranks(found)) or ()
    assert (late.rank.rank, late.rank.host, late.cause) == (3, "b", cause)
    assert late.beyond_s == pytest.approx(0.015, rel=0.1)


def test_the_report_is_about_the_rank_whose_machine_shows_the_cause() -> None:
    files = apart(spent_in("wait_s"), "aabb")
    assert [one.rank for one in merged(files).processes] == [3]
    own_work = merged(apart(ONE_LATE, "aabb"))
    assert [one.rank for one in own_work.processes] != [3], "those who wait know how long"
    assert write_up(own_work).verdict.cause == "comm.straggler"
    said = [line.text for finding in write_up(own_work).findings for line in finding.evidence]
    assert any("rank 3 on b" in line for line in said), said


def test_a_quota_that_is_used_up_is_why_there_was_no_core() -> None:
    files = apart(spent_in("runq_s"), "aabb")
    late = files["profile.b.3.json"]
    t = [float(second) for second in range(int(late.loops[0].table.t[-1]) + 1)]
    counted = {"quota_periods": [10 * one for one in t], "throttled_periods": [5 * one for one in t]}
    files["profile.b.3.json"] = replace(late, series=replace(late.series, t=t, values=counted))
    (found,) = slow_ranks(all_ranks(merged(files))) or ()
    assert found.cause == "quota"


@pytest.mark.parametrize("seed", range(5))
def test_of_healthy_ranks_none_is_late(seed: int) -> None:
    healthy = ranks(*(noisy(0.02, 100 * seed + rank) for rank in range(8)))
    assert slow_ranks(all_ranks(merged(apart(healthy, "aabbccdd")))) == []


def test_runs_on_one_machine_share_its_cores_and_are_not_strangers_to_each_other() -> None:
    files = apart(ONE_LATE, "aaaa")
    t = [0.0, 200.0]
    for name, one in files.items():
        busy = {"cpu_busy_s": [0.0, 380.0], "job_cpu_s": [0.0, 90.0], "cpu_idle_s": [0.0, 20.0]}
        table = one.loops[0].table
        moved = replace(table, t=[at - table.t[0] + 1 for at in table.t])
        files[name] = replace(
            one,
            loops=[replace(one.loops[0], table=moved)],
            series=replace(one.series, t=t, values=busy),
            machine=replace(one.machine, cores=2.0, cores_online=2),
        )
    host = diagnose(merged(files)).host
    assert host.trainers == 4
    assert host.foreign_cores == pytest.approx(0.0, abs=0.1)


def test_a_merged_profile_with_a_torn_column_is_refused() -> None:
    found = merged(apart(ONE_LATE, "aabb"))
    torn = replace(found, elsewhere=[replace(found.elsewhere[0], wait_s=[0.1])])
    with pytest.raises(BadProfile, match="column 'wait_s' has 1 rows"):
        encode_profile(torn)


def test_what_is_not_of_one_training_is_refused() -> None:
    files = apart(ONE_LATE, "aabb")
    twice = {**files, "again.json": files["profile.a.0.json"]}
    with pytest.raises(UsageError, match=r"rank 0 is in .*0.json and in again.json"):
        merged(twice)
    unknown = replace(files["profile.a.0.json"], processes=[])
    with pytest.raises(UsageError, match="gave its rank"):
        merged({"x.json": unknown})
    with pytest.raises(UsageError, match="merged already"):
        merged({**files, "all.json": merged(files)})
    empty = replace(files["profile.a.0.json"], loops=[])
    with pytest.raises(UsageError, match="no profile holds"):
        merged({"x.json": empty})


def test_the_late_rank_stands_out_in_all_steps() -> None:
    drawn = rank_map(merged(apart(ONE_LATE, "aabb")))
    assert drawn is not None
    assert drawn.names == ["rank 0, a", "rank 1, a", "rank 2, b", "rank 3, b"]
    late = [one for one in drawn.ratio[3] if one is not None]
    others = [one for row in drawn.ratio[:3] for one in row if one is not None]
    assert min(late) > max(others)
    assert sum(late) / len(late) == pytest.approx(0.035 / 0.02, rel=0.1)
    assert len(drawn.edges) - 1 == len(late) <= COLUMNS_AT_MOST
