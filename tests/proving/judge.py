"""Hold a proof against the twin measured by hand and the losses that the script wrote: pure functions."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.lab.judge import ratio
from tests.patients.expected import Patient

NEAR = 0.07  # of the twin's speedup, that the treatment's may be off by
TIMES = 10  # as long as the watched run, that a whole proof may take
# What the twin has done once and for all bdoc does at the start of each run: the steps are the same.
INSTEAD = {"precompute-deterministic": "cache-decoded-ram"}
TREATED = ("kept", "worse")  # verdicts that say that a difference is there
SAME, OTHER = "identical", ("order", "changed")


@dataclass(frozen=True)
class Evidence:
    """What is known of one patient: bdoc's proof, seconds per step by hand, and what trials left."""

    proof: dict[str, Any]
    sick_s: list[float]
    cured_s: list[float]
    told: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """What a row says of its losses, and whether they are those of the baseline; None where nobody knows."""

    row: str
    said: str
    true: str | None

    @property
    def right(self) -> bool | None:
        """What differs from the baseline may be another order or a change: the losses do not tell which."""
        if self.true is None:
            return None
        if self.true == "other":
            return self.said in OTHER
        return self.said == self.true


@dataclass(frozen=True)
class ProofJudgement:
    """One row of the table. A verdict of ``None`` means that there is nothing to judge. ``told`` is the
    speedup in bdoc's own trials, by the clock of the script; ``twin`` that by hand, as the least, the median
    and the largest of the pairs."""

    name: str
    remedy: str
    verdict: str
    predicted: float | None
    measured: tuple[float, float, float] | None
    told: float | None
    twin: tuple[float, float, float] | None
    winner: str
    winner_right: bool | None
    times: float
    crossing: list[str]
    decided: int
    claims: list[Claim]
    left: list[str]

    @property
    def off(self) -> float | None:
        """How far the treatment's speedup lies from the twin's, as a share of that."""
        if self.measured is None or not self.twin:
            return None
        return self.measured[1] / self.twin[1] - 1

    @property
    def near(self) -> bool | None:
        """A treatment that was not measured is not near; without a twin nobody knows."""
        if not self.twin:
            return None
        return self.off is not None and abs(self.off) <= NEAR

    @property
    def short(self) -> bool:
        """The proof took no longer than it may."""
        return self.times <= TIMES

    @property
    def parity_right(self) -> bool | None:
        """Every claim about losses is true."""
        judged = [one.right for one in self.claims if one.right is not None]
        return all(judged) if judged else None


def judge(patient: Patient, taken: Evidence) -> ProofJudgement:
    """Compare one proof with the patient's table entry and with what was measured by hand."""
    rows, remedy = taken.proof["rows"], INSTEAD.get(patient.twin or "", patient.twin)
    row = next((one for one in rows if one["id"] == remedy), None)
    decided = [one for one in rows if one["verdict"] in TREATED and one["measured"]]
    cost = taken.proof["cost"]
    return ProofJudgement(
        name=patient.name,
        remedy=remedy or "",
        verdict=row["verdict"] if row else "not in the plan",
        predicted=row["predicted"]["likely"] if row and row["predicted"] else None,
        measured=_interval(row["measured"]) if row else None,
        told=_told(taken, row) if row else None,
        twin=_pairs(taken.sick_s, taken.cured_s),
        winner=taken.proof["winner"],
        winner_right=_winner_right(patient, taken.proof),
        times=cost["spent_s"] / cost["window_s"],
        crossing=[one["id"] for one in decided if one["measured"]["low"] <= 1 <= one["measured"]["high"]],
        decided=len(decided),
        claims=claims(taken),
        left=list(taken.left),
    )


def claims(taken: Evidence) -> list[Claim]:
    """What every row says of its losses beside what the scripts wrote of them. The ceiling claims nothing."""
    baseline = _losses(taken.told, [])
    return [
        Claim(
            one["id"],
            one["parity"]["word"],
            true_word(baseline, _losses(taken.told, one["treatments"]), one["parity"]["steps"]),
        )
        for one in taken.proof["rows"]
        if one["measured"]
    ]


def true_word(
    baseline: Sequence[Sequence[str]], treated: Sequence[Sequence[str]], steps: int | None = None
) -> str | None:
    """identical, other, or unknown where the script does not repeat itself; None without losses to compare.

    Losses are compared as far as both runs have them, ``steps`` of them at most: so many a claim is about."""
    if not baseline or not treated:
        return None
    baseline, treated = ([one[: steps or None] for one in side] for side in (baseline, treated))
    if not all(_alike(baseline[0], one) for one in baseline):
        return "unknown"
    return SAME if all(_alike(baseline[0], one) for one in treated) else "other"


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _told(taken: Evidence, row: dict[str, Any]) -> float | None:
    """The speedup in the trials by the script's own clock."""
    sides = [
        [one["step_mean_s"] for one in _trials(taken.told, treatments) if one.get("step_mean_s")]
        for treatments in ([], row["treatments"])
    ]
    return ratio(*sides)


def _losses(told: list[dict[str, Any]], treatments: list[dict[str, Any]]) -> list[list[str]]:
    return [one["first_losses"] for one in _trials(told, treatments) if one["first_losses"]]


def _trials(told: list[dict[str, Any]], treatments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What those trials wrote of themselves that were ordered to do exactly this."""
    wanted = _key(treatments)
    return [one for one in told if one["order"] and _key(one["order"].get("treatments", [])) == wanted]


def _key(treatments: list[dict[str, Any]]) -> str:
    return json.dumps([[one["name"], one.get("options", {})] for one in treatments], sort_keys=True)


def _winner_right(patient: Patient, proof: dict[str, Any]) -> bool | None:
    """The winner applies what cures the patient; a healthy one has no winner."""
    if patient.remedies is None:
        return None
    cures = patient.remedies | ({patient.twin} if patient.twin else set())
    winner = next((one for one in proof["rows"] if one["id"] == proof["winner"]), None)
    if winner is None:
        return not cures
    return bool(cures & set(winner["remedies"]))


def _interval(measured: dict[str, float] | None) -> tuple[float, float, float] | None:
    return (measured["low"], measured["likely"], measured["high"]) if measured else None


def _pairs(sick_s: Sequence[float], cured_s: Sequence[float]) -> tuple[float, float, float] | None:
    """The speedups of sick and cured runs that followed each other: a machine's speed wanders."""
    ratios = sorted(sick / cured for sick, cured in zip(sick_s, cured_s, strict=True))
    return (ratios[0], statistics.median(ratios), ratios[-1]) if ratios else None
