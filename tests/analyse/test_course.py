"""The course of a run: curves are means, gaps stay gaps, and no screen gets more than it can show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.timeline import POINTS_AT_MOST, course_of
from bottleneck_doctor.model.device import DeviceFacts
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.picture import Curve
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.runs import own_loop, run_of


def curves(profile: Profile) -> dict[str, Curve]:
    return {curve.name: curve for curve in course_of(diagnose(profile)).curves}


def sensed(profile: Profile, **values: list[float | None]) -> Profile:
    """The same run with just these sensors, read once a second."""
    count = len(next(iter(values.values())))
    return replace(profile, series=Series([float(t) for t in range(count)], values))


RUN = run_of(workers=2, cpu=0.03, compute=0.01)


def test_the_curve_of_the_step_has_the_loops_mean() -> None:
    found = curves(RUN)
    mean = sum(RUN.loops[0].table.wall_s) / 300
    values = [value for value in found["step_time_s"].value if value is not None]
    assert sum(values) / len(values) == pytest.approx(mean, rel=0.02)
    high = found["step_time_high_s"].value
    assert all(a <= b + 1e-12 for a, b in zip(values, high, strict=True) if b is not None)


def test_the_waiting_is_a_share_of_the_step() -> None:
    (share,) = {round(value or 0.0, 1) for value in curves(RUN)["data_wait_share"].value}
    assert share == pytest.approx(1 - 0.01 / 0.02, abs=0.1)


def test_a_long_run_has_no_more_points_than_a_screen() -> None:
    found = curves(run_of(workers=2, cpu=0.03, compute=0.01, steps=4000))
    assert all(len(curve.t) <= POINTS_AT_MOST for curve in found.values())
    assert len(found["step_time_s"].t) > POINTS_AT_MOST / 2
    assert all(curve.t == sorted(curve.t) and len(curve.t) == len(curve.value) for curve in found.values())


def test_a_rare_long_step_is_in_the_high_curve_however_many_steps_share_a_point() -> None:
    profile = run_of(workers=2, cpu=0.03, compute=0.01, steps=4000)
    table = profile.loops[0].table
    table.wall_s[2000] = 9.0
    values = [value for value in curves(profile)["step_time_high_s"].value if value is not None]
    assert max(values) == 9.0


def test_no_line_joins_the_steps_before_and_after_an_evaluation() -> None:
    profile = run_of(workers=2, cpu=0.03, compute=0.01)
    table = profile.loops[0].table
    before, pause = table.t[150], 5.0
    late = replace(table, t=[t if t <= before else t + pause for t in table.t])
    profile = replace(profile, loops=[replace(profile.loops[0], table=late)])
    found = curves(profile)
    for name in ("step_time_s", "data_wait_share"):
        lifted = [t for t, value in zip(found[name].t, found[name].value, strict=True) if value is None]
        assert len(lifted) == 1
        assert before < lifted[0] < before + pause
        assert found[name].t == sorted(found[name].t)


def test_where_many_steps_share_a_row_the_longest_of_them_is_not_known() -> None:
    table = RUN.loops[0].table
    merged = replace(table, steps=[1] * 150 + [8] * 150)
    found = curves(replace(RUN, loops=[replace(RUN.loops[0], table=merged)]))["step_time_high_s"].value
    assert all(value is not None for value in found[:149])
    assert all(value is None for value in found[151:])


def test_counters_become_rates_between_two_readings() -> None:
    found = curves(sensed(RUN, job_cpu_s=[0.0, 1.5, 3.0, 4.0], cpu_busy_s=[10.0, 12.0, 15.0, 16.5]))
    assert found["job_cores"].t == [0.5, 1.5, 2.5]
    assert found["job_cores"].value == [1.5, 1.5, 1.0]
    assert found["other_cores"].value == [0.5, 1.5, 0.5]


def test_a_counter_that_goes_backwards_or_was_not_read_is_a_gap() -> None:
    found = curves(sensed(RUN, job_read_bytes=[100.0, 200.0, None, 50.0, 80.0]))
    assert found["job_read_bytes_per_s"].value == [100.0, None, None, 30.0]


def test_a_row_that_another_sensors_clock_made_is_no_gap() -> None:
    found = curves(
        sensed(RUN, job_cpu_s=[0.0, 1.0, None, 2.0, 2.5], job_rss_bytes=[5.0, None, 7.0, 8.0, 8.0])
    )
    assert found["job_cores"].value == [1.0, 0.5, 0.5, 0.5]
    assert found["job_rss_bytes"].value == [5.0, 5.0, 7.0, 8.0, 8.0]


def test_what_was_not_read_for_long_is_a_gap() -> None:
    found = curves(
        sensed(RUN, job_cpu_s=[0.0, 1.0, None, None, None, 5.0], job_rss_bytes=[1.0, *[None] * 4, 2.0])
    )
    assert found["job_cores"].value == [1.0, None, None, None, 1.0]
    assert found["job_rss_bytes"].value == [1.0, 1.0, 1.0, None, None, 2.0]


def test_waiting_for_disks_is_a_share_of_the_machines_time() -> None:
    found = curves(sensed(RUN, cpu_busy_s=[0.0, 2.0], cpu_idle_s=[0.0, 1.0], cpu_iowait_s=[0.0, 1.0]))
    assert found["iowait_share"].value == [0.25]


def test_pressure_is_never_more_than_all_of_the_time() -> None:
    assert curves(sensed(RUN, pressure_io_some_s=[0.0, 1.2, 1.5]))[
        "pressure_io_share"
    ].value == pytest.approx([1.0, 0.3])


def test_what_was_not_measured_has_no_curve() -> None:
    found = curves(replace(RUN, series=Series()))
    assert set(found) == {"step_time_s", "step_time_high_s", "data_wait_share", "worker_busy_share"}


def test_busy_workers_are_told_from_idle_ones() -> None:
    starved = curves(run_of(workers=2, cpu=0.03, compute=0.001))["worker_busy_share"].value
    fed = curves(run_of(workers=2, cpu=0.002, compute=0.02))["worker_busy_share"].value
    assert min(value or 0.0 for value in starved) > 0.9
    assert max(value or 0.0 for value in fed) < 0.1


@pytest.mark.parametrize(("device", "drawn"), [("cuda", True), ("cpu", False)])
def test_a_gpu_is_drawn_where_the_training_uses_it(device: str, drawn: bool) -> None:
    profile = sensed(RUN, gpu1_busy_share=[0.5, 0.7, 0.9], gpu0_busy_share=[0.0, 0.0, 0.0])
    process = Process(1, 0, "trainer", 0.0, torch="2.13.0", device=device)
    found = curves(replace(profile, processes=[process], device=DeviceFacts("cuda", pid=1, driver=1)))
    assert ("gpu_busy_share" in found) == drawn
    assert not drawn or found["gpu_busy_share"].value == [0.5, 0.7, 0.9]


def test_a_loop_without_a_loader_has_a_course_too() -> None:
    outside = own_loop(100, wall_s=0.1, gap_s=0.04, cpu_s=0.05)
    found = curves(replace(RUN, loops=[], loaders=[], fetches=[], outside=[outside]))
    assert found["step_time_s"].value == pytest.approx([0.1] * 100)
    assert found["data_wait_share"].value == pytest.approx([0.4] * 100)


def test_a_run_of_which_nothing_is_known_is_as_long_as_it_was() -> None:
    empty = replace(RUN, loops=[], loaders=[], fetches=[], series=Series(), operations=[])
    assert course_of(diagnose(empty)).duration_s == RUN.run.duration_s
    assert course_of(diagnose(empty)).curves == []
