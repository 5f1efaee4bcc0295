"""Kept proofs of patients, judged again: what `docs/accuracy-prove.md` publishes may not get worse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import median

import pytest

from tests.lab.golden import GOLDEN, archive
from tests.patients.expected import PATIENTS
from tests.proving.judge import TIMES, ProofJudgement, judge
from tests.proving.kept import again

KEPT = GOLDEN / "proving"
AT_LEAST, NEAR, WINNERS = 12, 12, 0.9

pytestmark = pytest.mark.skipif(not archive(KEPT).exists(), reason="no proof was recorded yet")


@cache
def every() -> list[ProofJudgement]:
    return [judge(one, taken) for one in PATIENTS if (taken := again(KEPT, one)) is not None]


def count(right: Callable[[ProofJudgement], bool | None]) -> int:
    return sum(right(one) is True for one in every())


def test_treatments_bring_what_the_hand_cured_twins_do() -> None:
    assert len(every()) >= AT_LEAST
    assert count(lambda one: one.near) >= NEAR


def test_the_winner_is_the_best_remedy() -> None:
    assert count(lambda one: one.winner_right) >= WINNERS * len(every())


def test_a_proof_takes_at_most_ten_times_as_long_as_its_first_run() -> None:
    assert median(one.times for one in every()) <= TIMES


def test_no_decided_difference_might_be_none() -> None:
    assert [(one.name, one.crossing) for one in every() if one.crossing] == []


def test_every_claim_about_losses_is_true() -> None:
    wrong = [(one.name, claim) for one in every() for claim in one.claims if claim.right is False]
    assert wrong == []


def test_nothing_was_left_behind() -> None:
    assert [(one.name, one.left) for one in every() if one.left] == []
