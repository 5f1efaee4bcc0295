"""The whole course of a proof on a simulated machine."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.proof import BASELINE, Arm, Attempt
from bottleneck_doctor.model.run import Treatment
from bottleneck_doctor.prove.plan import FOR_EXACTNESS, kept, try_out

from .simulated_runs import BASE, Machine, remedy


def course(machine: Machine, *arms: Arm) -> tuple[list[Arm], list[Attempt]]:
    attempts: list[Attempt] = []
    return try_out([BASE, *arms], machine.run, machine.left_s, 1.0, attempts), attempts


def test_large_gains_are_decided_in_two_rounds_and_then_combined() -> None:
    machine = Machine({"x": 2.0, "y": 1.5}, noise=0.01, budget_s=100)
    arms, _ = course(machine, remedy("x"), remedy("y"))
    rounds = ["baseline", "x", "y"] * 2 + ["baseline"]
    assert machine.runs == [*rounds, "combination", "baseline", "combination", "baseline"]
    assert arms[-1].remedies == ("x", "y")
    assert [one.name for one in arms[-1].treatments] == ["x", "y"]


def test_a_gain_that_is_sure_but_vague_is_measured_again_for_four_fifths_of_the_time() -> None:
    quiet, noisy = (Machine({"x": 2.0}, noise=noise, budget_s=40) for noise in (0.005, 0.08))
    course(quiet, remedy("x"))
    course(noisy, remedy("x"))
    assert quiet.runs.count("x") < noisy.runs.count("x")
    assert len(noisy.runs) <= FOR_EXACTNESS * 40


def test_alternatives_are_not_combined() -> None:
    two, four = (Treatment("loader", {"arguments": {"num_workers": count}}) for count in (2, 4))
    machine = Machine({"x": 2.0, "y": 1.5}, noise=0.01, budget_s=100)
    arms, _ = course(machine, remedy("x", two), remedy("y", four))
    assert [arm.id for arm in arms] == [BASELINE, "x", "y"]


def test_the_combination_comes_before_what_is_hard_to_decide() -> None:
    machine = Machine({"x": 2.0, "y": 1.5, "z": 1.04}, noise=0.05, budget_s=40)
    course(machine, remedy("x"), remedy("y"), remedy("z"))
    first = machine.runs.index("combination")
    assert machine.runs[:first].count("z") == 2
    assert machine.runs[first:].count("z") > 0


def test_the_budget_is_kept() -> None:
    machine = Machine({"x": 1.0}, noise=0.05, budget_s=7.5)
    course(machine, remedy("x"))
    assert len(machine.runs) <= 7
    assert machine.runs[-1] == BASELINE


@pytest.mark.parametrize("fate", ["broke", "hung", "out-of-memory", "not-applied", "too-short"])
def test_an_arm_that_fails_is_let_go_and_the_others_go_on(fate: str) -> None:
    machine = Machine({"y": 2.0}, noise=0.01, budget_s=100, fates={"x": fate})
    arms, attempts = course(machine, remedy("x"), remedy("y"))
    assert machine.runs.count("x") == 1
    assert [arm.id for arm in kept(arms, attempts)] == ["y"]


def test_a_script_that_does_not_run_again_is_left_alone() -> None:
    machine = Machine({}, budget_s=100, fates={BASELINE: "broke"})
    course(machine, remedy("x"))
    assert machine.runs == [BASELINE]


def test_whoever_interrupts_finds_what_was_measured() -> None:
    machine = Machine({"x": 2.0}, noise=0.01, budget_s=100)
    attempts: list[Attempt] = []

    def run(arm: Arm) -> Attempt:
        if len(attempts) == 3:
            raise KeyboardInterrupt
        return machine.run(arm)

    with pytest.raises(KeyboardInterrupt):
        try_out([BASE, remedy("x")], run, machine.left_s, 1.0, attempts)
    assert [one.arm for one in attempts] == [BASELINE, "x", BASELINE]
