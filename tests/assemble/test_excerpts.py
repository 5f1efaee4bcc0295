"""Which steps are kept as they were: seen densely, like the rest, out of the way of everything special."""

from __future__ import annotations

from collections.abc import Sequence

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.excerpts import STEPS_AIMED_AT, ExcerptRange, choose
from bottleneck_doctor.assemble.loaders import SampledArrival
from bottleneck_doctor.assemble.steps import ArrivalPoint, sums
from tests.assemble.logs import MS, row

NOTHING = sums([])


def points(steps: Sequence[tuple[float, float, int]]) -> list[ArrivalPoint]:
    """A loop's points: (milliseconds since the last, of these waited, steps covered) each."""
    found, t = [], 1000.0
    for wall, wait, covered in steps:
        t += wall
        arrival = SampledArrival(row(wire.NEXT, t - wait / covered, wait / covered), row(wire.CLOCKS, t))
        found.append(ArrivalPoint(arrival, 0, covered, int(wait * MS)))
    return found


def chosen(steps: Sequence[tuple[float, float, int]], slots: int = 0, **more: object) -> ExcerptRange | None:
    given: dict[str, object] = {"disturbed": [], "evaluation": NOTHING, "aimed_at": STEPS_AIMED_AT, **more}
    return choose(points(steps), slots, **given)  # type: ignore[arg-type]


def test_a_steady_run_gives_forty_steps_after_its_warm_up() -> None:
    found = chosen([(10, 4, 1)] * 300, slots=20)
    assert found is not None
    assert (found.steps, found.looks) == (40, 40)
    assert found.first >= 40


def test_steps_that_wait_as_much_as_the_whole_are_preferred() -> None:
    odd, usual = [(10.0, 9.0, 1)] * 60, [(10.0, 2.0, 1)] * 300
    found = chosen([*odd, *usual])
    assert found is not None
    assert found.first >= 59
    assert abs(found.waiting - 0.2) < 0.01


def test_steps_that_take_as_long_as_most_are_preferred() -> None:
    slow, usual = [(30.0, 6.0, 1)] * 60, [(10.0, 2.0, 1)] * 300
    found = chosen([*slow, *usual])
    assert found is not None
    assert found.first >= 59


def test_a_few_steps_that_were_all_seen_are_better_than_many_that_were_not() -> None:
    dense, thin = [(10.0, 3.0, 1)] * 33, [(100.0, 30.0, 10)] * 200
    found = chosen([*dense, *thin])
    assert found is not None
    assert found.steps == found.looks == 20


def test_steps_too_far_apart_to_show_anything_are_not_kept() -> None:
    assert chosen([(300.0, 90.0, 30)] * 200) is None


def test_no_stretch_lies_in_an_instruments_window() -> None:
    steps = [(10.0, 4.0, 1)] * 120
    window = ((1000 + 300) * MS, (1000 + 1100) * MS)
    found = chosen(steps, disturbed=[window])
    assert found is not None
    assert found.end <= window[0] or found.begin >= window[1]
    assert chosen(steps, disturbed=[(0, 10**15)]) is None


def test_evaluation_is_kept_out_unless_it_comes_every_few_steps() -> None:
    steps = [(10.0, 4.0, 1)] * 200
    once = sums([((1000 + 1500) * MS, 5 * MS)])
    apart = chosen(steps, evaluation=once)
    assert apart is not None
    assert not once.between(apart.begin, apart.end)
    always = sums([((1000 + 10 * step) * MS, 2 * MS) for step in range(200)])
    assert chosen(steps, evaluation=always) is not None


def test_a_run_of_a_dozen_steps_keeps_what_it_has_and_one_of_three_nothing() -> None:
    found = chosen([(10.0, 4.0, 1)] * 14)
    assert found is not None
    assert 8 <= found.steps <= 13
    assert chosen([(10.0, 4.0, 1)] * 3) is None
    assert chosen([]) is None
