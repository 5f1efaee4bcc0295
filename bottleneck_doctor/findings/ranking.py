"""Predicts the speedup of each remedy, drops those that do not pay, and ranks and combines the rest."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import NamedTuple

from ..analyse.predict import (
    WORTH,
    cautious,
    merge,
    predict,
    side_gains,
    side_of,
    speedup_of,
    step_after,
    widened,
)
from ..analyse.shares import NEARLY_ALL
from ..analyse.whole_run import in_run, with_evaluation
from ..model.codec import fields_of
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Remedy, Speedup, is_setting

SOURCE = "training steps over the run's length"


def in_whole_run(diagnosis: Diagnosis, finding: Finding, ranked: list[Offer]) -> list[Evidence]:
    """One line about the best remedy for the step, if it is this finding's; none where training is nearly
    all of the run.

    In a short profiling run the start weighs more than it will in the training that comes after it.
    """
    whole = diagnosis.whole
    best = next((offer for offer in ranked if offer.proposal.scope == "step"), None)
    if (
        best is None
        or best.finding is not finding
        or not 0 < whole.training_s < NEARLY_ALL * whole.run_s
        or best.told.likely is None
        or best.told.likely < WORTH
    ):
        return []
    text = f"gain of this whole run, with start-up and evaluation as they are, by {best.proposal.id}"
    return [Evidence(text, "run_speedup", in_run(whole, best.told.likely), SOURCE)]


WORTH_BALANCED = 1.05  # nor, on a run that nothing limits, one below the contract's 5 %
WORTH_A_RISK = 1.1  # nor a risky change that gained less than this in other trainings (chosen)
HURTS = 0.97  # a remedy with this speedup at most is reported as a warning
STEADY = 0.999  # a cautious speedup below it, and the remedy is not put before others: it may slow them down
EASE = {"env": 0, "hook": 1, "hook~": 2, "convert": 3, "manual": 3, "admin": 4}
EFFORT = {"minutes": 0, "hours": 1, "days": 2}
PAYS_TOO = 0.97  # of the step with the remedies above it, or a remedy adds too little to them (chosen)
TIE = 1.1  # times the gain of another at most, and the easier of the two comes first
LITTLE = 0.5  # of what another surely saves: a remedy that likely saves less is not put before it (chosen)
TRUST = {"replay": 0, "amdahl": 1, "bound": 2}


class Offer(NamedTuple):
    """A finding's remedy with the speedup the report shows (``told``). ``low`` and ``likely`` order the list;
    for a bound they come from other trainings, and the report omits them. ``cautious`` is the speedup under
    the least favourable assumption, before the model's error widens it."""

    finding: Finding
    proposal: Proposal
    low: float
    likely: float
    told: Speedup
    cautious: float = 1.0

    @property
    def discounted(self) -> float:
        """The geometric mean of the low and the likely speedup."""
        return sqrt(max(self.low, 1e-6) * max(self.likely, 1e-6))


def offers(diagnosis: Diagnosis, found: list[Finding]) -> list[Offer]:
    """Every remedy with its predicted speedup, best first."""
    cures = [(finding, proposal) for finding in found for proposal in finding.proposals]
    return in_order(diagnosis, [_offer(diagnosis, finding, proposal) for finding, proposal in cures])


def _offer(diagnosis: Diagnosis, finding: Finding, proposal: Proposal) -> Offer:
    if proposal.change is not None:
        told = predict(diagnosis, proposal.change, proposal.basis)
        return Offer(finding, proposal, told.low, told.reach, told, cautious(diagnosis, proposal.change))
    low, likely, high = proposal.factor or (1.0, 1.0, 1.0)
    told = Speedup(low, likely, high, proposal.basis)
    if proposal.scope != "run" or diagnosis.subject != "run":  # there, no replay of steps is in these numbers
        told = widened(diagnosis, low, likely, high, proposal.basis)
        low = told.low if proposal.basis != "bound" else low
    if proposal.most is not None:
        told = replace(told, high=max(likely, min(told.high, proposal.most)))
    if proposal.basis == "bound":
        told = Speedup(1.0, None, _most(diagnosis, proposal), proposal.basis)
    return Offer(finding, proposal, low, likely, told, (proposal.factor or (1.0,))[0])


def _most(diagnosis: Diagnosis, proposal: Proposal) -> float:
    """The upper bound: what the proposal says or, of a cure for the input, no data wait at all."""
    sides = side_gains(diagnosis.scenario) if diagnosis.scenario is not None else {}
    return max(1.0, proposal.most or sides.get("input", 1.0))


def in_order(diagnosis: Diagnosis, some: list[Offer]) -> list[Offer]:
    """Best first, each remedy once: first those for the verdict's cause, unless its confidence is low; then
    by gain, and among about equal gains the easiest."""
    left = []
    for one in some:  # a faster step leaves evaluation as it was
        of_run, own = one.proposal.scope == "run", one.discounted
        gained = own if of_run else with_evaluation(diagnosis.whole, own)
        left.append((_last(diagnosis, one), gained, one))
    ranked: dict[str, Offer] = {}
    while left:
        last, most, _ = min(left, key=lambda one: (one[0], -one[1]))
        tied = [one for one in left if one[0] == last and one[1] * TIE >= most]
        first = min(tied, key=lambda one: _ease(one[2]))
        ranked.setdefault(first[2].proposal.id, first[2])
        left.remove(first)
    return list(ranked.values())


def _last(diagnosis: Diagnosis, offer: Offer) -> tuple[bool, bool]:
    side = side_of(offer.finding.cause)
    named = diagnosis.verdict.confidence != "low" and side == side_of(diagnosis.verdict.cause)
    return promises_nothing(offer.proposal), not named


def _ease(offer: Offer) -> tuple[int, int, int, float]:
    proposal = offer.proposal
    effort, basis = EFFORT.get(proposal.effort, 1), offer.told.basis if offer.told.low >= 1 else "bound"
    return EASE[proposal.apply], effort, TRUST[basis], -offer.discounted


def without_trifles_first(diagnosis: Diagnosis, ranked: list[Offer]) -> list[Offer]:
    """The offers in five groups: predicted; predicted, but likely saving less than half of what another
    surely saves; with a bound only; settings; those that may slow the training down. In each group, those for
    the verdict's cause come first, then the larger number. A bound above all predictions may come first."""
    sure = max((_saved(offer.low) for offer in ranked), default=0.0)
    most = max((offer.told.likely or 0.0 for offer in ranked), default=0.0)

    def standing(offer: Offer, bound: bool) -> tuple[bool | float, ...]:
        told, little = offer.told, _saved(offer.likely) < LITTLE * sure
        last = offer.cautious < STEADY, is_setting(offer.proposal.id, told)
        if not bound:
            return *last, little
        shown = round(told.reach, 1 if told.reach >= WORTH_A_RISK else 2)
        return *last, (told.likely or 0.0) < WORTH_BALANCED, little, *_last(diagnosis, offer), -shown

    first = sorted(ranked, key=lambda offer: standing(offer, bound=False))[:1]
    first = [one for one in first if one.told.likely is None and one.told.high > most]
    left = [offer for offer in ranked if offer not in first]
    return first + sorted(left, key=lambda offer: standing(offer, bound=True))


def _saved(speedup: float) -> float:
    """The share of the time that a speedup saves."""
    return 1 - 1 / max(speedup, 1e-6)


def worth_saying(diagnosis: Diagnosis, offer: Offer) -> bool:
    """Whether the remedy pays, or slows the training enough to be reported as a warning."""
    if promises_nothing(offer.proposal):
        return offer.proposal.most is None or offer.proposal.most >= WORTH
    least = WORTH_BALANCED if diagnosis.verdict.cause == "none" else WORTH
    if offer.told.likely is None:
        return diagnosis.verdict.cause != "none" and offer.likely >= (
            WORTH_A_RISK if offer.proposal.risk else least
        )
    return offer.likely >= least or offer.told.high <= HURTS


def promises_nothing(proposal: Proposal) -> bool:
    """Whether no faster step is predicted for the remedy: it averts a failure, shortens the run, or has a
    gain that cannot be predicted."""
    return proposal.factor is not None and proposal.factor[:2] == (1.0, 1.0)


def remedies(diagnosis: Diagnosis, ranked: list[Offer]) -> list[Remedy]:
    """The remedies as the report shows them, each with the speedup combined with those above it."""
    told = []
    together = Change()
    for finding, proposal, _, likely, speedup, _ in ranked:
        combined = None
        if proposal.change is not None and likely > 1 and diagnosis.scenario is not None:
            with_it = merge(together, proposal.change)
            if step_after(diagnosis.scenario, with_it) < PAYS_TOO * step_after(diagnosis.scenario, together):
                together = with_it  # else it replaces one above, or adds too little
                combined = speedup_of(diagnosis.scenario, together)
        told.append(
            Remedy(
                **fields_of(proposal, Remedy),
                finding=finding.id,
                predicted_speedup=speedup,
                predicted_step_s=_step_after(diagnosis, proposal, speedup),
                combined_speedup=combined,
            )
        )
    return told


def _step_after(diagnosis: Diagnosis, proposal: Proposal, speedup: Speedup) -> float | None:
    if proposal.scope == "run":
        return diagnosis.step_s
    return None if speedup.likely is None else diagnosis.step_s / max(speedup.likely, 1e-9)
