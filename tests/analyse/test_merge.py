"""Profiles of ranks become one: who is late and why, whatever the number of files; of two trainings none."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.merge import merge
from bottleneck_doctor.analyse.ranks import all_ranks, compare, slow_ranks
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.errors import BadProfile, UsageError
from bottleneck_doctor.model.profile import Profile
from tests.analyse.test_ranks import STEPS, ranks

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


def spent(profile: Profile, rank: int, column: str, seconds: float) -> Profile:
    """What a rank spends so in each step."""
    loops = list(profile.loops)
    table = loops[rank].table
    loops[rank] = replace(loops[rank], table=replace(table, **{column: [seconds] * len(table.t)}))
    return replace(profile, loops=loops)


def merged(files: Files) -> Profile:
    return merge(list(files), files.__getitem__)


ONE_LATE = ranks(*(noisy(0.035 if rank == 3 else 0.02, rank) for rank in range(4)))


def test_ranks_of_many_files_are_compared_as_those_of_one() -> None:
    whole, parts = compare(ONE_LATE), compare(merged(apart(ONE_LATE, "aabb")))
    assert whole is not None
    assert parts is not None
    assert parts.missing == 0
    assert parts.exchange == pytest.approx(whole.exchange)
    assert sorted(parts.behind.values()) == pytest.approx(sorted(whole.behind.values()))
    assert parts.uneven == pytest.approx(whole.uneven)


@pytest.mark.parametrize(("column", "cause"), [("", "work"), ("wait_s", "data"), ("runq_s", "cores")])
def test_the_late_rank_is_named_with_what_it_spends_its_time_in(column: str, cause: str) -> None:
    profile = spent(ONE_LATE, 3, column, 0.014) if column else ONE_LATE
    found = merged(apart(profile, "aabb"))
    (late,) = slow_ranks(all_ranks(found)) or ()
    assert (late.rank.rank, late.rank.host, late.cause) == (3, "b", cause)
    assert late.beyond_s == pytest.approx(0.015, rel=0.1)


def test_the_report_is_about_the_rank_whose_machine_shows_the_cause() -> None:
    files = apart(spent(ONE_LATE, 3, "wait_s", 0.014), "aabb")
    assert [one.rank for one in merged(files).processes] == [3]
    own_work = merged(apart(ONE_LATE, "aabb"))
    assert [one.rank for one in own_work.processes] != [3], "those who wait know how long"
    assert write_up(own_work).verdict.cause == "comm.straggler"
    said = [line.text for finding in write_up(own_work).findings for line in finding.evidence]
    assert any("rank 3 on b" in line for line in said), said


def test_a_quota_that_is_used_up_is_why_there_was_no_core() -> None:
    files = apart(spent(ONE_LATE, 3, "runq_s", 0.014), "aabb")
    late = files["profile.b.3.json"]
    t = [float(second) for second in range(int(late.loops[0].table.t[-1]) + 1)]
    counted = {"quota_periods": [10 * one for one in t], "throttled_periods": [5 * one for one in t]}
    files["profile.b.3.json"] = replace(late, series=replace(late.series, t=t, values=counted))
    (found,) = slow_ranks(all_ranks(merged(files))) or ()
    assert found.cause == "quota"


@pytest.mark.parametrize("seed", range(20))
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


def test_where_no_loop_sleeps_in_exchanges_nobody_can_say_who_is_late() -> None:
    """As on accelerators: their kernels wait in the loops' place."""
    files = apart(ONE_LATE, "aabb")
    for name, one in files.items():
        (loop,) = one.loops
        table = replace(loop.table, exchange_s=[0.0] * len(loop.table.t))
        files[name] = replace(one, loops=[replace(loop, table=table)])
    found = all_ranks(merged(files))
    assert len(found) == 4
    assert slow_ranks(found) is None
    assert slow_ranks([]) is None


def test_a_process_beside_the_ranks_is_none_of_them() -> None:
    files = apart(ONE_LATE, "aabb")
    first = files["profile.a.0.json"]
    short = replace(first.loops[0].table, **{
        name: column[:20] for name, column in vars(first.loops[0].table).items() if isinstance(column, list)
    })  # fmt: skip
    stray = [replace(first.loops[0], pid=pid, table=short) for pid in (2, 3)]
    named = [replace(first.processes[0], pid=2, rank=None), replace(first.processes[0], pid=3)]
    first = replace(first, loops=[*first.loops, *stray], processes=[*first.processes, *named])
    found = merged({**files, "profile.a.0.json": first})
    assert sorted(one.rank for one in all_ranks(found) if one.rank is not None) == [0, 1, 2, 3]


def test_a_merged_profile_with_a_torn_column_is_refused() -> None:
    found = merged(apart(ONE_LATE, "aabb"))
    torn = replace(found, elsewhere=[replace(found.elsewhere[0], wait_s=[0.1])])
    with pytest.raises(BadProfile, match="column 'wait_s' has 1 rows"):
        encode_profile(torn)


def test_a_merged_profile_is_read_back_as_it_was_written() -> None:
    found = merged(apart(ONE_LATE, "aabb"))
    assert decode_profile(encode_profile(found)) == found


def test_what_is_not_of_one_training_is_refused() -> None:
    files = apart(ONE_LATE, "aabb")
    twice = {**files, "again.json": files["profile.a.0.json"]}
    with pytest.raises(UsageError, match=r"rank 0 is in .*0.json and in again.json"):
        merged(twice)
    unknown = replace(files["profile.a.0.json"], processes=[])
    with pytest.raises(UsageError, match="which rank"):
        merged({"x.json": unknown})
    with pytest.raises(UsageError, match="merged already"):
        merged({**files, "all.json": merged(files)})
    empty = replace(files["profile.a.0.json"], loops=[])
    with pytest.raises(UsageError, match="no profile holds"):
        merged({"x.json": empty})
