"""From the rows of simulated devices to a verdict, against what the simulation itself counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.metrics import summarise
from bottleneck_doctor.model.diagnosis import Diagnosis
from bottleneck_doctor.prescribe import write_up
from tests.assemble.device_rows import SECOND, Habits, Training, profile_of, trace_of, train, window_of

POINTS = 0.02

TABLE = [
    # what the training is like, its habits, bound and cause
    ("starved", Habits(fetch=9.0, issue=1.0, device=3.0), "cpu", "input.preprocess"),
    ("saturated", Habits(fetch=0.2, issue=2.0, device=12.0), "gpu", "device.compute"),
    ("launch-bound", Habits(fetch=0.1, issue=12.0, device=4.0, launches=400), "cpu", "host.launch"),
    ("sync-bound", Habits(fetch=0.1, issue=2.0, device=6.0, after=5.0), "cpu", "host.sync"),
    ("transfer-bound", Habits(fetch=0.1, issue=1.0, device=4.0, copy=7.0), "gpu", "device.transfer"),
    ("saving", Habits(fetch=0.1, issue=1.0, device=5.0, saving=80.0), "", "host.checkpoint"),
]


def seen(
    folder: Path, habits: Habits, every: int = 1, window: bool = True, steps: int = 300
) -> tuple[Training, Diagnosis]:
    """The diagnosis of a training, with a profiler's window in it or without."""
    training = train(folder, habits, steps, every)
    profile = profile_of(folder)
    assert profile.device is not None
    if window:
        profile = replace(profile, device=replace(profile.device, window=window_of(training)))
    return training, diagnose(profile)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(
    ("habits", "bound", "cause"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_verdict_is_what_the_simulation_did(tmp_path, habits, bound, cause, every):
    _, diagnosis = seen(tmp_path, habits, every)
    assert diagnosis.verdict.cause == cause, diagnosis.verdict
    assert bound in ("", diagnosis.verdict.bound)


@pytest.mark.parametrize("habits", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_idleness_is_divided_as_it_was(tmp_path, habits):
    training, diagnosis = seen(tmp_path, habits)
    beat, whole = diagnosis.device.beat, training.now - SECOND
    for name in ("input", "transfer", "sync", "launch", "other"):
        truth = training.idle[name] / whole
        assert getattr(beat, f"{name}_s") / beat.wall_s == pytest.approx(truth, abs=POINTS), name
    assert beat.busy_s / beat.wall_s == pytest.approx(training.busy / whole, abs=POINTS)


def test_a_loop_that_waits_for_room_in_the_queue_is_not_slow(tmp_path):
    """The device is always behind: the loop's own time looks like the step's, and is a sixth of it."""
    _, diagnosis = seen(tmp_path, Habits(fetch=0.2, issue=2.0, device=12.0))
    assert diagnosis.device.clock.issue_s > 0.9 * diagnosis.step_s
    assert diagnosis.verdict.gain["gpu"] > 1.5


def test_a_rare_stop_that_no_look_met_is_known_from_the_loops_own_clock(tmp_path):
    _, diagnosis = seen(tmp_path, Habits(issue=1.0, device=5.0, saving=300.0, saving_every=40), every=7)
    assert diagnosis.device.clock.wall_s == pytest.approx(diagnosis.step_s, rel=0.05)
    assert diagnosis.verdict.cause == "host.checkpoint"


def test_rare_long_waits_that_no_look_met_are_exposed(tmp_path):
    """Every 40th batch takes half a second, and next to none of these is looked at."""
    habits = Habits(fetch=1.0, issue=1.0, device=8.0, stall=500.0)
    training, diagnosis = seen(tmp_path, habits, every=17, steps=2000)
    exposed = diagnosis.metrics["exposed_data_wait_fraction"]
    truth = training.idle["input"] / (training.now - SECOND)
    assert exposed.value == pytest.approx(truth, abs=POINTS)
    assert exposed.low < truth < exposed.high


def test_what_next_gives_the_device_to_do_is_no_waiting(tmp_path):
    """Batches are augmented on the device: it is busy while the loop is in `next`."""
    training, diagnosis = seen(tmp_path, Habits(fetch=4.0, in_next=4.0, issue=1.0, device=6.0))
    exposed = diagnosis.metrics["exposed_data_wait_fraction"]
    truth = training.idle["input"] / (training.now - SECOND)
    assert diagnosis.device.clock.input_s > 0
    assert exposed.value == pytest.approx(truth, abs=POINTS)


@pytest.mark.parametrize(
    ("habits", "cause", "words"),
    [
        (TABLE[0][1], "input.preprocess", "keeps the CPU busy"),  # the clock alone is enough
        (TABLE[1][1], "device.compute", "not known without a profiler's window"),
        (TABLE[2][1], "device.compute", "not known without a profiler's window"),  # one kernel was left
        (replace(TABLE[2][1], outro=1.0), "host.launch", "before the next kernels are issued"),
        (TABLE[3][1], "device.compute", "not known without a profiler's window"),
        (TABLE[4][1], "device.transfer", "copied to it"),
    ],
)
def test_without_a_window_the_verdict_says_what_it_cannot_know(tmp_path, habits, cause, words):
    _, diagnosis = seen(tmp_path, habits, window=False)
    assert diagnosis.verdict.cause == cause, diagnosis.verdict
    assert words in diagnosis.verdict.summary
    assert diagnosis.verdict.confidence == ("low" if cause in ("device.compute", "host.launch") else "medium")
    assert "how busy the accelerator is" in [gap.what for gap in diagnosis.quality.gaps]
    assert diagnosis.metrics["gpu_busy_fraction"].value is None
    assert "device busy" not in [part.part for part in diagnosis.budget]
    assert sum(part.share for part in diagnosis.budget) == pytest.approx(1)


def test_exposed_wait_has_an_interval_and_says_how_many_looks_it_rests_on(tmp_path):
    training, diagnosis = seen(tmp_path, TABLE[0][1], window=False)
    exposed = diagnosis.metrics["exposed_data_wait_fraction"]
    truth = training.idle["input"] / (training.now - SECOND)
    assert exposed.value == pytest.approx(truth, abs=POINTS)
    assert exposed.low <= exposed.value <= exposed.high
    assert exposed.n == diagnosis.device.clock.looks > 100


def test_a_healthy_run_without_a_window_is_offered_nothing(tmp_path):
    """The loop waits for data in 7 % of its time, and the device never does."""
    train(tmp_path, Habits(fetch=0.8, issue=2.0, device=12.0))
    report = write_up(profile_of(tmp_path))
    assert [one.id for one in report.remedies if one.predicted_speedup.likely >= 1.05] == []


def test_waits_are_found_by_their_line_and_scaled_to_the_undisturbed_step(tmp_path):
    """Under the profiler the loop was half as fast again: what follows on each wait is, too."""
    training = train(tmp_path, TABLE[3][1])
    traces = {100: trace_of(training, 1.5)}
    diagnosis = diagnose(profile_of(tmp_path, traces=traces))
    read = diagnosis.device.facts.syncs[0]
    assert (read.call, read.file, read.line) == ("item", "train.py", 40)
    assert read.idle_s == pytest.approx(diagnosis.device.beat.sync_s, rel=0.02)
    report = write_up(profile_of(tmp_path, traces=traces))
    assert report.remedies[0].id == "defer-readback"
    cured = train(tmp_path / "cured", replace(TABLE[3][1], after=None, outro=5.0))
    truth = (training.now - SECOND) / (cured.now - SECOND)
    assert report.remedies[0].predicted_speedup.likely == pytest.approx(truth, rel=0.1)


def test_what_the_window_did_not_see_is_not_made_out_of_the_little_that_it_saw(tmp_path):
    """Others held the loop up for a tenth of each step, not in the window; there a readback cost 50 us."""
    training = train(tmp_path, Habits(issue=1.0, device=9.0, after=0.0, outro=1.0))
    window = replace(window_of(training), sync_s=5e-5, launch_s=5e-5)
    profile = profile_of(tmp_path)
    beat = diagnose(replace(profile, device=replace(profile.device, window=window))).device.beat
    assert beat.sync_s <= 5e-5
    assert beat.launch_s == pytest.approx(beat.wall_s - beat.busy_s - beat.sync_s - beat.input_s)


def test_the_report_says_what_the_device_did_in_one_line(tmp_path):
    _, diagnosis = seen(tmp_path, TABLE[2][1])
    summary = summarise(diagnosis.device, diagnosis.metrics)
    assert (summary.name, summary.kind) == ("Simulated", "cuda")
    assert [one.metric for one in summary.told] == [
        "gpu_busy_fraction", "exposed_data_wait_fraction", "cores_per_gpu", "device_launch_share", "kernels",
    ]  # fmt: skip


def test_each_rank_is_judged_by_its_own_device(tmp_path):
    """The second rank waits for its data, and it is the one that the report is about."""
    slow = train(tmp_path, Habits(fetch=9.0, issue=1.0, device=3.0), pid=101, index=0, uuid="bbbb")
    train(tmp_path, Habits(fetch=0.1, issue=1.0, device=3.0), steps=305, pid=100, index=0, uuid="aaaa")
    profile = profile_of(tmp_path)
    assert (profile.device.pid, profile.other_devices[0].pid) == (100, 101)
    diagnosis = diagnose(profile)
    assert (diagnosis.loop.pid, diagnosis.device.facts.pid) == (101, 101)
    truth = slow.idle["input"] / (slow.now - SECOND)
    assert diagnosis.metrics["exposed_data_wait_fraction"].value == pytest.approx(truth, abs=POINTS)
