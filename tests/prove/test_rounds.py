"""Which run comes next, and the whole course of a proof on a simulated machine."""

import pytest

from bottleneck_doctor.model.proof import BASELINE, CEILING, Arm, Attempt
from bottleneck_doctor.prove.plan import FOR_EXACTNESS, kept, next_arm, try_out

from .simulated_runs import BASE, Machine, measured, remedy

X, Y = remedy("x"), remedy("y")
TOP = Arm(CEILING, "ceiling", "from memory")
SECONDS = {"B": (BASELINE, 0.1), "x": ("x", 0.05), "y": ("y", 0.094), "C": (CEILING, 0.02)}


def story(text: str) -> list[Attempt]:
    """Runs by letter: B baseline, C ceiling, x twice as fast, y hardly faster; ``!`` breaks one."""
    return [
        Attempt(SECONDS[one[0]][0], "broke", "no", run_s=1.0)
        if one.endswith("!")
        else measured(*SECONDS[one])
        for one in text.split()
    ]


@pytest.mark.parametrize(
    ("so_far", "left_s", "next_one"),
    [
        ("", 100, "baseline"),
        ("B", 100, "x"),
        ("B x", 100, "y"),
        ("B x y", 100, "cached-batches"),
        ("B x y C B", 100, "x"),
        ("B x y C B x y C B", 100, "y"),  # x is decided, the ceiling known well enough
        ("B x! y C B", 100, "y"),  # what broke is not tried again
        ("B", 1.5, None),  # no arm without a baseline after it
        ("B x", 1.5, "baseline"),  # what was begun is closed
        ("B!", 100, None),  # the script does not run twice
        ("B x y C B! ", 100, "baseline"),  # once may be bad luck
        ("B x y C B! B!", 100, None),
    ],
)
def test_the_next_run_follows_from_those_before(so_far: str, left_s: float, next_one: str | None) -> None:
    found = next_arm([BASE, X, Y, TOP], story(so_far), left_s, 1.0)
    assert (found.id if found is not None else None) == next_one


def test_after_an_interruption_nothing_is_run() -> None:
    attempts = [*story("B x"), Attempt("y", "interrupted")]
    assert next_arm([BASE, X, Y], attempts, 100.0, 1.0) is None


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


def test_the_budget_is_kept() -> None:
    machine = Machine({"x": 1.0}, noise=0.05, budget_s=7.5)
    course(machine, remedy("x"))
    assert len(machine.runs) <= 7
    assert machine.runs[-1] == BASELINE


def test_an_arm_that_fails_is_let_go_and_the_others_go_on() -> None:
    machine = Machine({"y": 2.0}, noise=0.01, budget_s=100, fates={"x": "hung"})
    arms, attempts = course(machine, remedy("x"), remedy("y"))
    assert machine.runs.count("x") == 1
    assert [arm.id for arm in kept(arms, attempts)] == ["y"]


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
