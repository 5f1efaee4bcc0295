"""Which run comes next: rounds between baselines, no run without the time for its judgement."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.proof import BASELINE, CEILING, Arm, Attempt
from bottleneck_doctor.prove.plan import next_arm

from .simulated_runs import BASE, measured, remedy

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
        ("B x y C", 100, "baseline"),
        ("B x y C B", 100, "x"),
        ("B x y C B x y C B", 100, "y"),  # x is decided, the ceiling known well enough
        ("B x y C B x y C B y", 100, "baseline"),
        ("B x! y C", 100, "baseline"),
        ("B x! y C B", 100, "y"),  # what broke is not tried again
        ("B x!", 100, "y"),
        ("B", 1.5, None),  # no arm without a baseline after it
        ("", 2.5, None),
        ("", 3.0, "baseline"),
        ("B x", 1.5, "baseline"),  # what was begun is closed
        ("B x", 0.5, None),
        ("B!", 100, None),  # the script does not run twice
        ("B x y C B! ", 100, "baseline"),  # once may be bad luck
        ("B x y C B! B!", 100, None),
    ],
)
def test_the_next_run_follows_from_those_before(so_far: str, left_s: float, next_one: str | None) -> None:
    found = next_arm([BASE, X, Y, TOP], story(so_far), left_s, 1.0)
    assert (found.id if found is not None else None) == next_one


def test_without_a_remedy_nothing_is_run() -> None:
    assert next_arm([BASE], [], 100.0, 1.0) is None


def test_after_an_interruption_nothing_is_run() -> None:
    attempts = [*story("B x"), Attempt("y", "interrupted")]
    assert next_arm([BASE, X, Y], attempts, 100.0, 1.0) is None


def test_an_undecided_arm_is_tried_so_many_times_at_most() -> None:
    assert next_arm([BASE, Y], story("B y B y B"), 100.0, 1.0, most=2) is None
    assert next_arm([BASE, Y], story("B y B y B"), 100.0, 1.0, most=3) is Y


def test_an_arm_that_takes_longer_needs_more_of_the_time() -> None:
    slow = [measured(BASELINE, 0.1), measured("y", 0.1, run_s=9.0), measured(BASELINE, 0.1)]
    assert next_arm([BASE, Y], slow, 9.5, 1.0) is None
    assert next_arm([BASE, Y], slow, 10.5, 1.0) is Y
