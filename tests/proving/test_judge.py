"""Proofs of patients, judged: by words and numbers, and the recorded ones may not get worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.house.source import ROOT
from tests.lab.golden import GOLDEN
from tests.patients.expected import PATIENTS
from tests.proving import table
from tests.proving.judge import Evidence, ProofJudgement, judge
from tests.proving.proofs import again

PATIENT = next(one for one in PATIENTS if one.name == "loader-in-main")
WORKERS = [{"name": "loader", "options": {"arguments": {"num_workers": 2}}}]
LOSSES = ["0x1.0p+0", "0x1.8p-1", "0x1.0p-2"]


def a_row(name: str = "workers-auto", word: str = "identical", **changed: Any) -> dict[str, Any]:
    measured = {"low": 1.9, "likely": 2.0, "high": 2.1, "runs": 2}
    return {
        "id": name,
        "remedies": [name],
        "treatments": WORKERS,
        "predicted": {"low": 1.8, "likely": 2.1, "high": 2.3, "basis": "replay"},
        "measured": measured,
        "verdict": "kept",
        "parity": {"word": word, "text": "", "steps": 3, "largest": None},
        **changed,
    }


def a_trial(losses: list[str], treatments: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "order": {"treatments": treatments, "losses": 32, "seed": 0},
        "first_losses": losses,
        "step_mean_s": 0.01 if treatments else 0.03,
    }


def taken(*rows: dict[str, Any], winner: str = "workers-auto", treated: list[str] = LOSSES) -> Evidence:
    cost = {"window_s": 10.0, "spent_s": 60.0, "budget_s": 90.0, "runs": 6}
    proof = {"rows": list(rows), "winner": winner, "cost": cost}
    told = [a_trial(LOSSES, []), a_trial(LOSSES[:2], []), a_trial(treated, WORKERS), {**a_trial([], [])}]
    return Evidence(proof, [0.020, 0.021], [0.010, 0.0105], told)


def judged(*rows: dict[str, Any], **how: Any) -> ProofJudgement:
    return judge(PATIENT, taken(*rows, **how))


def test_a_winner_is_right_where_it_cures_and_a_combination_where_it_holds_the_cure() -> None:
    other, both = a_row("pin-memory"), a_row("both", remedies=["pin-memory", "workers-auto"])
    assert judged(a_row(), other, winner="pin-memory").winner_right is False
    assert judged(a_row(), other, both, winner="both").winner_right is True
    assert judged(a_row(), winner="").winner_right is False


def test_a_decided_difference_with_one_in_its_interval_is_named() -> None:
    measured = {"low": 0.99, "likely": 1.05, "high": 1.1, "runs": 2}
    assert judged(a_row(measured=measured)).crossing == ["workers-auto"]
    assert judged(a_row(measured=measured, verdict="undecided")).crossing == []


@pytest.mark.parametrize(
    ("said", "treated", "right"),
    [
        ("identical", LOSSES[:2], True),
        ("identical", [*LOSSES[:2], "0x1.0p-3"], False),
        ("order", [*LOSSES[:2], "0x1.0p-3"], True),
        ("changed", LOSSES, False),
        ("identical", [], None),
    ],
)
def test_what_is_said_of_losses_is_held_against_the_scripts_own(
    said: str, treated: list[str], right: bool | None
) -> None:
    assert judged(a_row(word=said), treated=treated).parity_right is right


def test_time_and_what_was_left_behind_are_in_the_table() -> None:
    long = replace(taken(a_row()), left=["process python"])
    long.proof["cost"]["spent_s"] = 101.0
    found = judge(PATIENT, long)
    assert found.short is False
    assert "| process python |" in table.row(found)
    assert "nothing left behind: 0 of 1" in table.summary([found])


def test_the_page_holds_the_recorded_proofs_and_what_they_add_up_to() -> None:
    page = (ROOT / "docs" / "accuracy-prove.md").read_text(encoding="utf-8")
    kept = [(one, again(GOLDEN / "proving", one)) for one in PATIENTS]
    judgements = [judge(one, taken) for one, taken in kept if taken is not None]
    rows = {line for line in page.splitlines() if line.startswith("| ")} - set(table.HEADER.splitlines())
    assert rows == set(map(table.row, judgements))
    assert [line for line in table.summary(judgements) if line not in page] == []
