"""Sensors keep to their pace, and each failure costs one sensor alone; what can be measured is listed."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.model.instruments import Sample, Stack
from bottleneck_doctor.model.run import Gap, Progress
from bottleneck_doctor.sense import capabilities, schedule
from bottleneck_doctor.sense.capabilities import list_capabilities
from bottleneck_doctor.sense.files import FIRST_NAMESPACE, SCOPE, tracer, what_allows, why_refused
from bottleneck_doctor.sense.pyspy import KINDS
from bottleneck_doctor.sense.schedule import (
    CALM_AFTER_NS,
    CALM_PERIOD_NS,
    MOST_CORE_SHARE,
    PERIOD_NS,
    PROFILE_AFTER_S,
    PROFILE_STEPS,
    PROFILER_S,
    STACKS_AFTER_S,
    AdaptivePeriod,
    Track,
    Windows,
)
from bottleneck_doctor.sense.sensors import MOST_FAILURES, Sensors
from tests.sense.conftest import Plant, Start

S = 1_000_000_000


def run(sensors: Sensors, seconds: float) -> int:
    """Ticks in fake time whenever it is asked for; how often."""
    now_ns = time.monotonic_ns()
    end_ns = now_ns + int(seconds * S)
    for ticks in itertools.count(1):
        wait_s = sensors.tick(now_ns)
        assert wait_s >= 0
        now_ns += max(int(wait_s * S), 1_000_000)
        if now_ns >= end_ns:
            sensors.close()
            return ticks
    raise AssertionError


def test_system_job_and_blocked_are_sampled_under_names_of_their_own(start: Start) -> None:
    child = start("print('ready', flush=True); import time; time.sleep(60)")
    sensors = Sensors(child.pid, lambda: [(child.pid, child.pid)])
    run(sensors, 3)
    owners: dict[str, set[str]] = {}
    for sample in sensors.samples:
        for name in sample.values:
            owners.setdefault(name, set()).add(sample.sensor)
    assert set().union(*owners.values()) >= {"system", "job", "holdings", "blocked"}
    assert {name: by for name, by in owners.items() if len(by) > 1} == {}
    assert 5 <= sum(sample.sensor == "job" for sample in sensors.samples) <= 7
    assert sum(sample.sensor == "holdings" for sample in sensors.samples) == 2, "every two seconds"
    assert sum(float(s.values["sleep"]) for s in sensors.samples if s.sensor == "blocked") > 50


def test_a_failing_source_is_given_up_with_one_gap_and_the_others_go_on() -> None:
    calls = []

    def fetching() -> list[tuple[int, int]]:
        calls.append(1)
        raise RuntimeError("the pulse file is gone")

    sensors = Sensors(os.getpid(), fetching)
    run(sensors, 3)
    assert len(calls) == MOST_FAILURES
    gaps = [gap.why for gap in sensors.gaps() if gap.what == "blocked sensor"]
    assert gaps == ["RuntimeError: the pulse file is gone"]
    assert sum(sample.sensor == "system" for sample in sensors.samples) >= 5


@pytest.mark.parametrize("stat", ["cpu  a b c d e f g h i j\n", None])
def test_with_garbage_or_nothing_in_proc_it_still_ticks(plant: Plant, stat: str | None) -> None:
    sensors = Sensors(1, lambda: [(1, 1)], root=plant({} if stat is None else {"proc/stat": stat}))
    assert run(sensors, 1) > 10
    gaps = {gap.what for gap in sensors.gaps()}
    assert gaps >= ({"pressure stall information", "disk counters"} if stat is None else {"system sensor"})


@pytest.mark.parametrize(
    ("readings", "cost_ns", "longest_ns", "low", "high"),
    [
        (100, 50_000, S, 20_000_000, 20_000_000),  # cheap: the shortest period
        (1000, 2_000_000, S, 0.9 * 2_000_000 / MOST_CORE_SHARE, 1.1 * 2_000_000 / MOST_CORE_SHARE),
        (1, 5_000_000, S, 20_000_000, 40_000_000),  # one dear reading does not starve the next
        (1000, 10 * S, S, S, S),  # even the dearest reads at its longest period
    ],
)
def test_a_sensor_keeps_to_its_share_of_a_core(
    readings: int, cost_ns: int, longest_ns: int, low: float, high: float
) -> None:
    pace = AdaptivePeriod(20_000_000, longest_ns)
    for _ in range(readings):
        pace.spent(cost_ns)
    assert low <= pace.period_ns <= high


def follow(track: Track, until_ns: int, cost_ns: int = 0) -> list[int]:
    """Reads whenever the track asks, in fake time; the instants of the readings."""
    times = []
    while track.next_ns < until_ns:
        times.append(track.next_ns)
        track.keep(track.next_ns, [Sample(track.next_ns, "fake", {})], cost_ns)
    return times


def distances(times: list[int]) -> set[int]:
    return {later - sooner for sooner, later in itertools.pairwise(times)}


def test_it_reads_twice_a_second_and_after_two_minutes_every_other_second() -> None:
    track = Track(0)
    brisk, calm = follow(track, CALM_AFTER_NS), follow(track, 2 * CALM_AFTER_NS)
    assert distances(brisk) == {PERIOD_NS}
    assert distances(calm) == {CALM_PERIOD_NS}
    assert len(follow(Track(0), CALM_AFTER_NS, cost_ns=50_000_000)) < len(brisk) / 5, "a dear one, less often"


def test_a_long_run_stays_bounded_and_evenly_spread() -> None:
    track, hour_ns = Track(0, most=200), 3600 * S
    follow(track, 24 * hour_ns)
    times = [sample.t_ns for sample in track.samples()]
    assert 50 < len(times) <= 200
    assert times[0] == 0
    assert times[-1] > 23 * hour_ns
    late = distances([t for t in times if t > hour_ns])
    assert max(late) <= 2 * min(late)


def test_a_roaming_track_keeps_the_pace_and_no_beat() -> None:
    """Readings fall evenly into every phase of a step that lasts just as long as their period."""
    times = follow(Track(0, roaming=True), CALM_AFTER_NS)
    assert len(times) == pytest.approx(CALM_AFTER_NS / PERIOD_NS, rel=0.02)
    assert min(distances(times)) > 0.6 * PERIOD_NS
    phases = [sum(1 for t in times if t % PERIOD_NS * 4 // PERIOD_NS == quarter) for quarter in range(4)]
    assert min(phases) > 0.2 * len(times)


EARLY = int(1.1 * STACKS_AFTER_S * 1e9)
NOW = int(2 * PROFILE_AFTER_S * 1e9)
FRONT = Progress(1, PROFILE_STEPS, PROFILE_STEPS, 0, first_ns=1, last_ns=NOW)
SEEN = [Stack(1, "", "T", ["f"], 9, 4, 1)]


class Look:
    """Stands for a run of py-spy; `over` says whether it has ended."""

    begun: list[Look]
    cpu_s = 0.01

    def __init__(self, pids: list[int], seconds: float, rate_hz: int, kind: Sequence[str], children: bool):
        count = {KINDS["every"]: 9, KINDS["awake"]: 4, KINDS["holding"]: 1}[tuple(kind)]
        self.by_target = {1: [Stack(1, "", "T", ["f"], count)]}
        self.over, self.gaps, self.rate_hz = False, [Gap("stacks", "a reason")], rate_hz
        self.begun.append(self)

    def is_over(self) -> bool:
        return self.over

    def close(self) -> None:
        self.over = True


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """The looks that were begun so far, one of each kind to a window."""
    Look.begun = []
    monkeypatch.setattr(schedule, "StackWindow", Look)
    return Look.begun


def watching(profiler: bool = False) -> Windows:
    return Windows(profiler=profiler, py_spy=True, ask_for_profile=lambda number: None)


def test_a_window_is_over_when_all_its_looks_are(looks: list[Look]) -> None:
    window = watching()
    window.look([FRONT], EARLY, 0)
    looks[0].over = looks[1].over = True
    window.look([FRONT], EARLY + 1, 0)
    assert window.stacks == []
    looks[2].over = True
    window.look([FRONT], EARLY + 2, 0)
    assert window.stacks == SEEN
    assert [one.instrument for one in window.windows] == ["py-spy"]
    assert len(window.gaps) == 1, "one reason is enough"
    assert window.cpu_s == pytest.approx(3 * Look.cpu_s)


def test_py_spy_waits_until_no_process_is_profiled_any_more(looks: list[Look]) -> None:
    asked: list[int] = []
    window = Windows(profiler=True, py_spy=True, ask_for_profile=asked.append)
    late = NOW + int(2 * PROFILER_S * 1e9)

    def look(now_ns: int, windows: int, profiled: bool) -> None:
        front = replace(FRONT, last_ns=now_ns, windows=windows)
        window.look([front, Progress(2, PROFILE_STEPS, 1, 0, 1, now_ns, 0, profiled)], now_ns, 0)

    window.look([FRONT], EARLY, 0)
    for one in looks:
        one.over = True
    look(EARLY + 1, 0, False)
    look(int(PROFILE_AFTER_S * 1.01e9), 0, False)
    assert asked == [1]
    look(late, 0, True)
    look(late, 1, True)
    assert len(looks) == 3, "one of them still is"
    look(late, 1, False)
    assert len(looks) == 6, "the next window has begun"


def test_instruments_are_over_once_each_asked_for_has_had_its_turn(looks: list[Look]) -> None:
    window = watching(profiler=True)
    assert not window.over([FRONT], EARLY)
    window.look([FRONT], EARLY, 0)
    assert (window.disturbs([FRONT]), window.over([FRONT], EARLY)) == (True, False)
    for one in looks:
        one.over = True
    window.look([FRONT], EARLY + 1, 0)
    assert (window.disturbs([FRONT]), window.over([FRONT], EARLY)) == (False, False)
    begun = int(PROFILE_AFTER_S * 1.01e9)
    window.look([FRONT], begun, 0)
    profiled = replace(FRONT, windows=1, profiled=True)
    assert (window.disturbs([profiled]), window.over([profiled], begun)) == (True, False)
    done = replace(FRONT, windows=1)
    assert (window.disturbs([done]), window.over([done], begun)) == (False, True)


def test_this_machine_lists_each_capability_once_and_leaves_no_child() -> None:
    before = psutil.Process().children()  # of tests before this one
    found = list_capabilities()
    names = [one.name for one in found]
    assert len(names) == len(set(names))
    assert {"cores", "shared memory", "control groups", "what blocked threads wait for"} <= set(names)
    assert all(one.detail for one in found)
    assert all(not one.do for one in found if one.available)
    assert set(psutil.Process().children()) <= set(before)


def test_a_bare_tree_says_what_to_do_about_each_missing_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "find_py_spy", lambda: None)
    missing = {one.name: one.do for one in list_capabilities(Path("/nowhere/at/all")) if not one.available}
    assert missing.keys() >= {
        "shared memory", "run-queue wait", "bytes per task", "control groups", "pressure stall information",
    }  # fmt: skip
    assert missing["python stacks (py-spy)"] == "pip install py-spy"
    assert all(missing.values())


def machine(plant: Plant, scope: int | None = None, uid: int | None = None, container: bool = False) -> Path:
    """A root on which process 7 is ours unless it is another user's."""
    files = {
        "proc/7/status": f"Name:\tx\nUid:\t{os.geteuid() if uid is None else uid}\t0\t0\t0\n",
        "proc/self/ns/": "",
    }
    files |= {} if scope is None else {SCOPE: f"{scope}\n"}
    files |= {".dockerenv": ""} if container else {}
    root = plant(files)
    if not (root / "proc/self/ns/pid").is_symlink():
        (root / "proc/self/ns/pid").symlink_to(FIRST_NAMESPACE)
    return root


@pytest.mark.parametrize(
    ("scope", "container", "do"),
    [
        (None, False, "sudo setcap cap_sys_ptrace+ep /opt/py-spy"),
        (1, False, "sudo sysctl kernel.yama.ptrace_scope=0"),
        (2, False, "sudo sysctl kernel.yama.ptrace_scope=1"),  # we are let in by name then
        (3, False, "boot again: nothing lowers it before"),
        (2, True, "start the container with `--cap-add SYS_PTRACE`"),
    ],
)
def test_one_command_is_named_and_it_fits_the_machine(
    plant: Plant, scope: int | None, container: bool, do: str
) -> None:
    root = machine(plant, scope, container=container)
    assert what_allows(7, root, "/opt/py-spy").endswith(do)
    assert tracer(root) == (os.getpid() if scope == 1 else None), "a training names us where Yama asks for it"


def test_another_users_process_is_named_as_one(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    root = machine(plant, 1, uid=1001)
    assert why_refused(7, root) == "it belongs to user 1001, bdoc runs as user 1000"
    assert what_allows(7, root, "/opt/py-spy") == "run bdoc as the user who trains"
    assert why_refused(8, root) == "kernel.yama.ptrace_scope is 1", "of one that is gone nothing is known"
