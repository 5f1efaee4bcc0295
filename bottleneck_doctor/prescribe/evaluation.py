"""What is said of the evaluation's loop where that is what the run's time goes into."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..analyse.whole import CAUSE, with_faster_evaluation
from ..findings.entry import Entry
from ..model.diagnosis import Diagnosis, Finding
from ..model.report import Metric, Speedup
from .rank import Offer, offers, order, promises_nothing
from .shelf import entries

LOADERS = "input."  # the causes of findings that speak of a loader, whichever loop it feeds
OWN = "the evaluation's loader"
TOGETHER = "gain of training and evaluation together"


def subject_of(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis of the loop that the verdict is about."""
    if diagnosis.subject == "evaluation" and diagnosis.evaluation is not None:
        return diagnosis.evaluation
    return diagnosis


def is_asked(diagnosis: Diagnosis, entry: Entry) -> bool:
    """Whether a finding is asked: none of an undecided run; where the verdict is about something beside the
    training's steps, or these were too few to be judged, only those of its cause."""
    if diagnosis.verdict.bound == "inconclusive":
        return False
    if diagnosis.subject == "run":
        return entry.cause == diagnosis.verdict.cause
    return bool(diagnosis.causes) or entry.cause == CAUSE


def examine_evaluation(diagnosis: Diagnosis) -> list[Finding]:
    """Ask the findings that speak of a loader about the evaluation's."""
    about = subject_of(diagnosis)
    if about is diagnosis or not about.causes:
        return []
    asked = [entry for entry in entries() if entry.cause.startswith(LOADERS)]
    outcomes = [entry.examine(about) for entry in asked]
    return [one for one in outcomes if isinstance(one, Finding)]


def evaluation_offers(diagnosis: Diagnosis, found: list[Finding]) -> list[Offer]:
    """Their cures, with what a faster evaluation brings training and evaluation together."""
    return [_together(diagnosis, offer) for offer in (offers(subject_of(diagnosis), found) if found else [])]


def _together(diagnosis: Diagnosis, offer: Offer) -> Offer:
    cure, told = offer.cure, offer.told
    if promises_nothing(cure):
        return offer._replace(cure=replace(cure, title=f"{cure.title} ({OWN})", scope="run"))
    ends = (offer.low, offer.likely, told.low, told.high)
    low, likely, least, high = (with_faster_evaluation(diagnosis.whole, one) for one in ends)
    title = f"{cure.title} ({OWN}; {TOGETHER})"
    cure = replace(cure, title=title, change=None, factor=(low, likely, high), scope="run")
    told = Speedup(least, None if told.likely is None else likely, high, told.basis)
    return Offer(offer.finding, cure, low, likely, told)


def ranked_together(diagnosis: Diagnosis, mine: list[Offer], others: list[Offer]) -> list[Offer]:
    """Both, best first; of the same remedy for two loaders, the one that brings more."""
    if not others:
        return mine
    best: dict[str, Offer] = {}
    for offer in sorted([*others, *mine], key=partial(order, diagnosis)):
        best.setdefault(offer.cure.id, offer)
    return list(best.values())


def evaluation_metrics(diagnosis: Diagnosis) -> dict[str, Metric]:
    """The evaluation's own steps, where there are any: the metrics proper are those of training."""
    own = diagnosis.evaluation
    seen = own.metrics if own is not None and own.steps else {}
    names = {"evaluation_data_wait_fraction": "data_wait_fraction", "evaluation_step_time_s": "step_time_s"}
    units = {"data_wait_fraction": "share", "step_time_s": "s"}
    return {
        name: seen.get(of, Metric(None, units[of], source="no evaluation step was seen"))
        for name, of in names.items()
    }
