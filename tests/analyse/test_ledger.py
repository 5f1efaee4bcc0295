"""The run's ledger: its parts sum to the run, each is where it belongs, what nobody saw is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.whole_run import UNEXPLAINED, ledger_of
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Elapsed, Process
from tests.analyse.runs import run_of

MS = 1e-3
LIFE = Elapsed(
    1, first_s=3.0, last_s=8.0, exit_s=8.5, preparing_s=2.5, training_s=3.0, evaluation_s=0.5, starting_s=0.4,
    starting_evaluation_s=0.1, stopping_s=0.2, checkpoint_s=0.3, profiled_s=0.1, between_s=0.4,
)  # fmt: skip


def run(life: Elapsed | None = LIFE, pid: int | None = 1, duration_s: float = 9.0) -> Profile:
    """Three seconds of training in a process that began after half a second."""
    base = run_of(cpu=1 * MS, compute=9 * MS, steps=300)
    return replace(
        base,
        run=replace(base.run, duration_s=duration_s, pid=pid),
        processes=[Process(1, 0, "trainer", 0.5)],
        elapsed=[life] if life is not None else [],
    )


def parts(profile: Profile) -> dict[str, float]:
    ledger = ledger_of(diagnose(profile))
    assert sum(one.share for one in ledger) == pytest.approx(1.0)
    assert sum(one.s for one in ledger) == pytest.approx(profile.run.duration_s)
    return {one.part: one.s for one in ledger}


def test_each_part_is_named_and_nothing_is_left() -> None:
    known = parts(run())
    assert list(known)[:3] == ["launching", "start-up and imports", "starting workers"], (
        "in the order of time"
    )
    assert known.pop("warm-up", 0.0) + known.pop("training steps") == pytest.approx(3.0)
    assert known == pytest.approx(
        {"launching": 0.5, "start-up and imports": 2.5, "starting workers": 0.5, "evaluation": 0.5,
         "checkpoints": 0.3, "steps under torch.profiler": 0.1, "stopping workers": 0.2, "end of epochs": 0.4,
         "after the last loop": 0.5, "shut-down": 0.5}
    )  # fmt: skip


def test_a_launcher_that_goes_on_is_not_the_trainings_shut_down() -> None:
    assert parts(run(pid=77))["shut-down and other processes"] == pytest.approx(0.5)


def test_a_process_that_tells_no_exit_leaves_the_rest_under_its_own_name() -> None:
    known = parts(run(replace(LIFE, exit_s=None)))
    assert known["after the last batch seen"] == pytest.approx(1.0)
    assert "shut-down" not in known


def test_what_nobody_saw_is_named() -> None:
    assert parts(run(replace(LIFE, training_s=2.0)))[UNEXPLAINED] == pytest.approx(1.0)


def test_parts_that_exceed_the_run_are_cut_to_it() -> None:
    assert parts(run(replace(LIFE, training_s=13.0))).get(UNEXPLAINED, 0.0) == pytest.approx(0.0, abs=1e-6)


def test_a_profile_without_the_fact_is_divided_by_its_tables() -> None:
    base = run_of(cpu=1 * MS, compute=9 * MS, steps=300)
    known = parts(base)
    assert known["start-up and imports"] == pytest.approx(3.0, rel=1e-3)
    assert known.get("warm-up", 0.0) + known["training steps"] == pytest.approx(3.0, rel=0.05)
    assert known.get(UNEXPLAINED, 0.0) < 0.05 * base.run.duration_s


def test_starts_and_checkpoints_of_an_older_profile_are_no_training_steps() -> None:
    plain = {"workers": 2, "cpu": 1 * MS, "compute": 9 * MS, "steps": 300, "epochs": 3}
    known = parts(run_of(**plain, start=0.4, checkpoint=1 * MS))
    assert known["starting workers"] == pytest.approx(3 * 0.4, rel=0.1)
    assert known["checkpoints"] == pytest.approx(0.3, rel=0.05)


def test_a_run_of_which_nothing_is_known_is_unexplained() -> None:
    base = run_of(steps=20)
    bare = replace(base, loops=[], outside=[], loaders=[], fetches=[])
    assert parts(bare) == pytest.approx({UNEXPLAINED: base.run.duration_s})
