"""Sensors keep to their pace, and each failure costs one sensor alone."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.run import Gap, Progress
from bottleneck_doctor.sense import capabilities, schedule
from bottleneck_doctor.sense.capabilities import list_capabilities
from bottleneck_doctor.sense.cgroup import Cgroups
from bottleneck_doctor.sense.proc_files import (
    FIRST_NAMESPACE,
    SCOPE,
    in_container,
    tracer,
    what_allows,
    why_refused,
)
from bottleneck_doctor.sense.schedule import (
    MOST_CORE_SHARE,
    PROFILE_AFTER_S,
    PROFILE_STEPS,
    PROFILER_S,
    STACKS_AFTER_S,
    AdaptivePeriod,
    Windows,
    stacks_hz,
)
from bottleneck_doctor.sense.sensors import MOST_FAILURES, Sensors, open_sensors
from tests.sense.conftest import Plant, Start
from tests.sense.fake_nvml import FakeNvml, gpu

S = 1_000_000_000


def names(sensors: Sensors) -> set[str]:
    """The sensors that delivered something."""
    return {sample.sensor for sample in sensors.samples}


def run(sensors: Sensors, seconds: float) -> list[int]:
    """Ticks in fake time whenever it is asked for; the instants of the ticks."""
    now_ns = time.monotonic_ns()
    end_ns = now_ns + int(seconds * S)
    times = []
    while now_ns < end_ns:
        times.append(now_ns)
        wait_s = sensors.tick(now_ns)
        assert wait_s >= 0
        now_ns += max(int(wait_s * S), 1_000_000)
    return times


def test_system_job_gpu_and_blocked_are_sampled(start: Start) -> None:
    child = start("print('ready', flush=True); import time; time.sleep(60)")
    sensors = Sensors(child.pid, lambda: [(child.pid, child.pid)], nvml=FakeNvml(gpu()), environment={})
    run(sensors, 3)
    sensors.close()
    assert {"system", "job", "gpu", "gpu_static", "blocked", "channel", "sensors"} <= names(sensors)
    jobs = [sample.values for sample in sensors.samples if sample.sensor == "job"]
    assert 5 <= len(jobs) <= 7
    assert {values["job_processes"] for values in jobs} == {1}
    assert sum(float(s.values["sleep"]) for s in sensors.samples if s.sensor == "blocked") > 50


def test_no_two_sensors_share_a_name() -> None:
    sensors = Sensors(os.getpid(), list, nvml=FakeNvml(gpu()), environment={})
    run(sensors, 1)
    sensors.close()
    owners: dict[str, set[str]] = {}
    for sample in sensors.samples:
        for name in sample.values:
            owners.setdefault(name, set()).add(sample.sensor)
    assert {name: by for name, by in owners.items() if len(by) > 1} == {}


def test_a_job_that_ended_is_no_failure(start: Start) -> None:
    child = start("print('ready', flush=True)")
    child.wait()
    sensors = open_sensors(child.pid, lambda: [(child.pid, child.pid)])
    run(sensors, 2)
    sensors.close()
    assert "job" not in names(sensors)
    assert not [gap for gap in sensors.gaps() if "sensor" in gap.what]


def test_a_failing_source_is_given_up_with_one_gap_and_the_others_go_on() -> None:
    calls = []

    def fetching() -> list[tuple[int, int]]:
        calls.append(1)
        raise RuntimeError("the pulse file is gone")

    sensors = Sensors(os.getpid(), fetching, nvml=FakeNvml(gpu()), environment={})
    run(sensors, 3)
    sensors.close()
    assert len(calls) == MOST_FAILURES
    assert [gap.why for gap in sensors.gaps() if gap.what == "blocked sensor"] == [
        "RuntimeError: the pulse file is gone"
    ]
    assert sum(sample.sensor == "system" for sample in sensors.samples) >= 5


def test_garbage_in_proc_becomes_a_gap(plant: Plant) -> None:
    root = plant({"proc/stat": "cpu  a b c d e f g h i j\n", "proc/1/stat": "1 (x) S garbage\n"})
    sensors = Sensors(1, lambda: [(1, 1)], root=root, nvml=FakeNvml(), environment={})
    run(sensors, 2)
    sensors.close()
    assert [gap.what for gap in sensors.gaps() if "sensor" in gap.what] == ["system sensor"]


def test_without_anything_to_read_it_still_ticks() -> None:
    sensors = Sensors(1, lambda: [(1, 1)], root=Path("/nowhere/at/all"), nvml=FakeNvml(), environment={})
    assert len(run(sensors, 1)) > 10
    sensors.close()
    assert {gap.what for gap in sensors.gaps()} >= {"pressure stall information", "disk counters"}


def test_samples_and_gaps_survive_closing() -> None:
    sensors = Sensors(os.getpid(), list, nvml=FakeNvml(gpu()), environment={})
    run(sensors, 1)
    before = sensors.samples
    sensors.close()
    assert sensors.samples == before


def test_what_watching_costs_is_in_the_samples() -> None:
    sensors = Sensors(os.getpid(), lambda: [(os.getpid(), os.getpid())], nvml=FakeNvml(gpu()), environment={})
    run(sensors, 1)
    sensors.close()
    (cost,) = [sample.values["sensors_cpu_s"] for sample in sensors.samples if sample.sensor == "sensors"]
    assert float(cost) > 0


@pytest.mark.slow
@pytest.mark.alone
def test_watching_costs_a_small_share_of_a_core(start: Start) -> None:
    children = [start("print('ready', flush=True); import time; time.sleep(60)").pid for _ in range(4)]
    sensors = open_sensors(os.getpid(), lambda: [(pid, pid) for pid in children])
    began_s = time.monotonic()
    while time.monotonic() - began_s < 3:
        time.sleep(sensors.tick(time.monotonic_ns()))
    elapsed_s = time.monotonic() - began_s
    sensors.close()
    (cost,) = [sample.values["sensors_cpu_s"] for sample in sensors.samples if sample.sensor == "sensors"]
    assert float(cost) / elapsed_s < 0.05  # twice what it may spend, and room for a machine that is busy


def test_a_cheap_sensor_reads_at_its_shortest_period() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000)
    for _ in range(100):
        pace.spent(50_000)
    assert pace.period_ns == 20_000_000


def test_a_dear_sensor_keeps_to_its_share_of_a_core() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000)
    for _ in range(1000):
        pace.spent(2_000_000)
    assert 0.9 * MOST_CORE_SHARE < 2_000_000 / pace.period_ns < 1.1 * MOST_CORE_SHARE


def test_one_dear_reading_does_not_starve_the_next() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000)
    pace.spent(5_000_000)
    assert pace.period_ns <= 2 * 20_000_000


def test_even_the_dearest_sensor_reads_at_its_longest_period() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000, smoothing=1.0)
    pace.spent(10_000_000_000)
    assert pace.period_ns == 1_000_000_000


EARLY = int(1.1 * STACKS_AFTER_S * 1e9)
NOW = int(2 * PROFILE_AFTER_S * 1e9)
FRONT = Progress(1, PROFILE_STEPS, PROFILE_STEPS, 0, first_ns=1, last_ns=NOW)
SEEN = [Stack(1, "", "T", ["f"], 9, 4, 1)]


class Look:
    """Stands for a run of py-spy; `over` says whether it has ended."""

    cpu_s = 0.01

    def __init__(self, stacks: list[Stack]) -> None:
        self.stacks, self.over, self.gaps = stacks, False, [Gap("stacks", "a reason")]

    @property
    def by_target(self) -> dict[int, list[Stack]]:
        return {1: self.stacks}

    def poll(self) -> list[Stack] | None:
        return self.stacks if self.over else None

    def close(self) -> None:
        self.over = True


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """The looks that were begun so far, three to a window: at all, at those awake, at those in Python."""
    begun: list[Look] = []
    counts = {(True, False): 9, (False, False): 4, (False, True): 1}

    def begin(
        pids: list[int],
        seconds: float,
        rate_hz: int,
        idle: bool = True,
        gil: bool = False,
        children: bool = True,
    ) -> Look:
        begun.append(Look([Stack(1, "", "T", ["f"], counts[idle, gil])]))
        return begun[-1]

    monkeypatch.setattr(schedule, "start_window", begin)
    return begun


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


def test_windows_come_ever_more_rarely_and_add_up(looks: list[Look]) -> None:
    window, begins, known = watching(), [], 0
    for tenth in range(1, 1000):
        window.look([FRONT], tenth * 100_000_000, 0)
        if len(looks) > known:
            begins.append(tenth / 10)
            known = len(looks)
            for look in looks:
                look.over = True
    assert begins[0] <= 1.0, "a run of two seconds has one"
    distances = [later - one for one, later in pairwise(begins)]
    assert distances == sorted(distances)
    assert 5 <= len(begins) <= 10
    assert window.stacks[0].count == 9 * len(window.windows)


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


def test_the_end_of_the_training_closes_all(looks: list[Look]) -> None:
    window = watching()
    window.look([FRONT], EARLY, 0)
    window.close(EARLY + 1, 0)
    assert all(look.over for look in looks)
    assert window.stacks == SEEN


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


def test_without_instruments_nothing_is_waited_for() -> None:
    assert Windows(profiler=False, py_spy=False, ask_for_profile=lambda number: None).over([], NOW)


@pytest.mark.parametrize(("processes", "cores", "hz"), [(1, 2, 100), (4, 2, 100), (5, 2, 30), (9, 16, 100)])
def test_several_processes_to_a_core_are_looked_at_less_often(processes: int, cores: int, hz: int) -> None:
    assert stacks_hz(processes, cores) == hz


def test_this_machine_lists_each_capability_once_and_leaves_no_child() -> None:
    before = psutil.Process().children()  # of tests before this one
    found = list_capabilities()
    names = [one.name for one in found]
    assert len(names) == len(set(names))
    assert {"cores", "shared memory", "control groups", "what blocked threads wait for"} <= set(names)
    assert all(one.detail for one in found)
    assert all(not one.do for one in found if one.available)
    assert set(psutil.Process().children()) <= set(before)


def test_a_bare_tree_says_what_to_do_about_each_missing_thing() -> None:
    missing = [one for one in list_capabilities(Path("/nowhere/at/all")) if not one.available]
    expected = {
        "shared memory",
        "run-queue wait",
        "bytes per task",
        "control groups",
        "pressure stall information",
    }
    assert expected <= {one.name for one in missing}
    assert all(one.do for one in missing)


def test_cores_say_why(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant({"job/cpu.max": "150000 100000"})
    monkeypatch.setattr(capabilities, "find_cgroups", lambda _: Cgroups("v2", unified=[root / "job"]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    found = list_capabilities(root)[0]
    assert found.detail == "1.5 allowed: 8 online, 3 in the affinity mask, a cgroup quota of 1.5"


@pytest.mark.parametrize(("text", "available"), [("1\n", True), ("0\n", False)])
def test_delay_accounting_must_be_switched_on(plant: Plant, text: str, available: bool) -> None:
    root = plant({"proc/sys/kernel/task_delayacct": text})
    found = next(one for one in list_capabilities(root) if one.name == "delay accounting")
    assert (found.available, bool(found.do)) == (available, not available)


def test_a_missing_py_spy_names_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "find_py_spy", lambda: None)
    found = next(one for one in list_capabilities() if "py-spy" in one.name)
    assert (found.available, found.do) == (False, "pip install py-spy")


def machine(plant: Plant, scope: int | None = None, uid: int | None = None, container: bool = False):
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
        (0, False, "sudo setcap cap_sys_ptrace+ep /opt/py-spy"),
        (1, False, "sudo sysctl kernel.yama.ptrace_scope=0"),
        (2, False, "sudo sysctl kernel.yama.ptrace_scope=1"),  # we are let in by name then
        (None, True, "start the container with `--cap-add SYS_PTRACE`"),
        (2, True, "start the container with `--cap-add SYS_PTRACE`"),
    ],
)
def test_one_command_is_named_and_it_fits_the_machine(
    plant: Plant, scope: int | None, container: bool, do: str
) -> None:
    root = machine(plant, scope, container=container)
    assert what_allows(7, root, "/opt/py-spy") == do


def test_what_no_command_can_change_is_said(plant: Plant) -> None:
    assert "boot again" in what_allows(7, machine(plant, 3), "/opt/py-spy")


def test_another_users_process_is_said_to_be_one(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    root = machine(plant, 1, uid=1001)
    assert why_refused(7, root) == "it belongs to user 1001, bdoc runs as user 1000"
    assert what_allows(7, root, "/opt/py-spy") == "run bdoc as the user who trains"
    assert why_refused(8, root) == "kernel.yama.ptrace_scope is 1", (
        "of a process that is gone nothing is known"
    )


def test_a_training_names_us_only_where_yama_asks_for_it(plant: Plant) -> None:
    assert [tracer(machine(plant, scope)) for scope in (None, 0, 1, 2, 3)] == [
        None,
        None,
        os.getpid(),
        None,
        None,
    ]


def test_a_container_is_known_by_its_file_or_by_its_processes(plant: Plant) -> None:
    root = machine(plant)
    assert not in_container(root)
    (root / "proc/self/ns/pid").unlink()
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532817]")
    assert in_container(root)
    assert in_container(machine(plant, container=True))
