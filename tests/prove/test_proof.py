"""The proof: a row an arm, best first, the winner by measurement."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bottleneck_doctor.model.proof import (
    BASELINE,
    CEILING,
    Arm,
    Attempt,
    Gain,
    Missed,
    Proof,
    ProofCost,
    Proved,
)
from bottleneck_doctor.model.run import Losses, Order, Treatment, Trial
from bottleneck_doctor.prove.proof import LEFT_OUT, prove, winner

from .simulated_runs import BASE, measured, remedy
from .test_plan import remedy as told
from .test_plan import report

COST = ProofCost(10.0, 60.0, 100.0, 5)
TOP = Arm(CEILING, "ceiling", "from memory")


def proof(arms: list[Arm], attempts: list[Attempt], missed: Sequence[Missed] = ()) -> Proof:
    return prove(report(told("x"), told("y")), arms, attempts, COST, missed, [])


def rounds(*arms: tuple[str, float], times: int = 2) -> list[Attempt]:
    one_round = [measured(BASELINE, 0.1), *(measured(name, step_s) for name, step_s in arms)]
    return [*one_round * times, measured(BASELINE, 0.1)]


def row(name: str, gain: Gain | None, verdict: str = "kept", kind: str = "remedy", why: str = "") -> Proved:
    return Proved(name, kind, "", [name], "hook", None, gain, verdict, why)


def test_rows_stand_best_first_and_the_best_wins() -> None:
    found = proof([BASE, remedy("x"), remedy("y"), TOP], rounds(("x", 0.08), ("y", 0.05), (CEILING, 0.03)))
    assert [one.id for one in found.rows] == ["y", "x"]
    assert found.winner == "y"
    assert found.ceiling is not None
    assert found.ceiling.measured is not None
    assert found.ceiling.measured.likely == pytest.approx(10 / 3)


def test_one_failure_outweighs_what_was_measured_before() -> None:
    attempts = [*rounds(("x", 0.05)), Attempt("x", "out-of-memory", "no")]
    assert proof([BASE, remedy("x")], attempts).rows[0].verdict == "out-of-memory"


def test_what_the_budget_did_not_reach_was_not_tried() -> None:
    found = proof([BASE, remedy("x"), remedy("y")], rounds(("x", 0.05)))
    assert (found.rows[-1].id, found.rows[-1].verdict) == ("y", "not-tried")


def test_between_one_baseline_and_none_nothing_is_decided() -> None:
    found = proof([BASE, remedy("x")], [measured(BASELINE, 0.1), measured("x", 0.02)]).rows[0]
    assert (found.verdict, found.why) == ("undecided", "the training as it is was not run again after it")
    assert found.measured is not None


@pytest.mark.parametrize(("treatment", "told"), [("autocast", "not-tried"), ("loader", "kept")])
def test_sixteen_bits_that_change_no_loss_never_reached_the_model(treatment: str, told: str) -> None:
    trial = Trial(Order(), [], [Losses(1, None, ["0x1p0"])])
    attempts = [
        Attempt(name, "measured", "", 0.1 if name == BASELINE else 0.08, 0.1, trial=trial)
        for name in (BASELINE, "x", BASELINE, "x", BASELINE)
    ]
    (found,) = proof([BASE, replace(remedy("x"), treatments=(Treatment(treatment, {}),))], attempts).rows
    assert (found.verdict, found.measured is None) == (told, told == "not-tried")


def test_other_programs_are_mentioned_where_they_took_a_share() -> None:
    attempts = [
        Attempt(name, "measured", "", 0.2, 0.2, fair_s=fair_s, fair_error=0.01)
        for name, fair_s in ((BASELINE, 0.1), ("x", 0.05), (BASELINE, 0.1))
    ]
    found = proof([BASE, remedy("x")], attempts)
    assert found.notes == [LEFT_OUT]
    assert found.baseline_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([row("a", Gain(1.5, 1.4, 1.6, 2)), row("b", Gain(2.0, 1.9, 2.1, 2))], "b"),
        ([row("a", Gain(1.5, 1.4, 1.6, 2)), row("b", Gain(3.0, 0.9, 9.0, 2), "undecided")], "a"),
        ([row("a", Gain(1.0, 0.98, 1.02, 2), "no gain")], ""),
        ([row("a", None, "broke")], ""),
        ([row("a", Gain(1.5, 1.4, 1.6, 2)), row("c", Gain(1.55, 1.45, 1.65, 2), kind="combination")], "a"),
        ([row("a", Gain(1.5, 1.4, 1.6, 2)), row("c", Gain(2.5, 2.4, 2.6, 2), kind="combination")], "c"),
        ([row("a", Gain(1.5, 1.4, 1.6, 2)), row("c", Gain(2.5, 0.9, 5, 2), "undecided", "combination")], "a"),
    ],
)
def test_a_combination_must_beat_the_best_single_remedy_by_more_than_the_noise(
    rows: list[Proved], best: str
) -> None:
    assert winner(rows) == best
