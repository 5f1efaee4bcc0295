"""Writes the report: diagnosis, findings, remedies best first."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace

from ..analyse.diagnose import diagnose
from ..analyse.hot_lines import hot_functions, hot_operators
from ..analyse.metrics import environment, summarise
from ..analyse.whole_run import CAUSE, end_of, ledger_of, with_faster_evaluation
from ..model.codec import fields_of
from ..model.diagnosis import Diagnosis, Finding
from ..model.profile import Profile
from ..model.report import Abstention, Metric, Remedy, Report, ReportedFinding, RunSummary, Speedup
from ..model.run import Gap
from .ranking import (
    Offer,
    in_order,
    in_whole_run,
    offers,
    promises_nothing,
    remedies,
    without_trifles_first,
    worth_saying,
)
from .registry import Entry, entries

SHOWN = {"data_wait_fraction": "share", "step_time_s": "s"}  # of the evaluation's steps
LOADERS = "input."  # the causes of findings about a loader, of training or evaluation
OWN = "the evaluation's loader"
TOGETHER = "gain of training and evaluation together"


def is_asked(diagnosis: Diagnosis, entry: Entry) -> bool:
    """Whether a finding is evaluated: none if the verdict is inconclusive; only those of the verdict's cause
    if the verdict is not about training steps, or there were too few steps."""
    if diagnosis.verdict.bound == "inconclusive":
        return False
    if diagnosis.subject == "run":
        return entry.cause == diagnosis.verdict.cause
    return bool(diagnosis.causes) or entry.cause == CAUSE


def _together(diagnosis: Diagnosis, offer: Offer) -> Offer:
    """A remedy of the evaluation's loader, with the speedup of training and evaluation together."""
    proposal, told = offer.proposal, offer.told
    if promises_nothing(proposal):
        return offer._replace(proposal=replace(proposal, title=f"{proposal.title} ({OWN})", scope="run"))
    ends = (offer.low, offer.likely, told.low, told.high)
    low, likely, least, high = (with_faster_evaluation(diagnosis.whole, one) for one in ends)
    title = f"{proposal.title} ({OWN}; {TOGETHER})"
    proposal = replace(proposal, title=title, change=None, factor=(low, likely, high), scope="run")
    told = Speedup(least, None if told.likely is None else likely, high, told.basis)
    return Offer(offer.finding, proposal, low, likely, told, offer.cautious)


FEW = "enough training steps to judge, and a large part of the run in them"
FAILED = "it failed because of a bug in bdoc"


def write_up(profile: Profile, diagnosis: Diagnosis | None = None) -> Report:
    """The report on a profile; a pure function, defined for every valid profile. ``diagnosis`` saves
    diagnosing it again."""
    diagnosis = diagnosis or diagnose(profile)
    about = (diagnosis.evaluation if diagnosis.subject == "evaluation" else None) or diagnosis
    asked = [entry for entry in entries() if is_asked(diagnosis, entry)]
    found, abstained = _examine(diagnosis, asked)
    on_loaders = [one for one in entries() if one.cause.startswith(LOADERS)]
    others, unknown = _examine(about, on_loaders if about is not diagnosis and about.causes else [])
    every = offers(diagnosis, found)
    if others:  # of the same remedy for two loaders, the one that brings more
        together = [_together(diagnosis, offer) for offer in offers(about, others)]
        every = in_order(diagnosis, [*together, *every])
    ranked = without_trifles_first(diagnosis, [one for one in every if worth_saying(diagnosis, one)])
    told = remedies(diagnosis, ranked)
    kept = _kept([*others, *found], ranked)
    failed = {one.finding: one.missing for one in [*unknown, *abstained] if one.missing.startswith(FAILED)}
    failures = [Gap(f"the finding {name}", why, "please report it") for name, why in failed.items()]
    own, none = diagnosis.evaluation, "no evaluation step was seen"
    seen = own.metrics if own is not None and own.steps else {}
    of_evaluation = {
        f"evaluation_{name}": seen.get(name, Metric(None, unit, source=none)) for name, unit in SHOWN.items()
    }
    own_steps = about is not diagnosis or diagnosis.subject != "evaluation"  # else it lies within the loop
    return Report(
        run=_run(profile),
        quality=replace(diagnosis.quality, gaps=[*diagnosis.quality.gaps, *failures]),
        metrics=diagnosis.metrics | of_evaluation,
        budget=about.budget,
        verdict=diagnosis.verdict,
        phases=diagnosis.phases,
        findings=[_reported(diagnosis, finding, told, ranked) for finding in kept],
        remedies=[one for one in told if one.predicted_speedup.reach >= 1],
        warnings=[one for one in told if one.predicted_speedup.reach < 1],
        abstentions=abstained + [Abstention(one.id, FEW) for one in entries() if one not in asked],
        environment=environment(profile),
        functions=hot_functions(profile),
        operators=hot_operators(profile),
        device=summarise(diagnosis),
        ledger=ledger_of(diagnosis),
        budget_of=diagnosis.subject if own_steps else "training",
    )


def _examine(diagnosis: Diagnosis, asked: list[Entry]) -> tuple[list[Finding], list[Abstention]]:
    """Evaluate findings. An exception in one is a bug in bdoc; the report then lacks only that finding."""
    outcomes: list[Finding | Abstention | None] = []
    for entry in asked:
        try:
            outcomes.append(entry.ask(diagnosis))
        except Exception as mistake:
            why = f"{FAILED}: {type(mistake).__name__}: {mistake}"
            outcomes.append(Abstention(entry.id, why))
    found = [one for one in outcomes if isinstance(one, Finding)]
    return found, [one for one in outcomes if isinstance(one, Abstention)]


def _kept(found: list[Finding], ranked: list[Offer]) -> list[Finding]:
    """Findings with a remedy in the list, and findings without proposals; if training and evaluation have the
    same finding, the one whose remedy is listed."""
    paying = {offer.proposal.id for offer in ranked}
    offering = {id(offer.finding) for offer in ranked}
    twice = Counter(one.id for one in found)
    return [
        one
        for one in found
        if not one.proposals
        or id(one) in offering
        or (twice[one.id] == 1 and any(proposal.id in paying for proposal in one.proposals))
    ]


def _reported(
    diagnosis: Diagnosis, finding: Finding, told: list[Remedy], ranked: list[Offer]
) -> ReportedFinding:
    mine = [remedy for remedy in told if remedy.finding == finding.id]
    helps = any(remedy.predicted_speedup.reach > 1 for remedy in mine)
    severity = "primary" if finding.cause == diagnosis.verdict.cause else "secondary"
    return ReportedFinding(
        finding.id,
        finding.cause,
        severity if helps else "notice",
        [*finding.evidence, *in_whole_run(diagnosis, finding, ranked)],
        finding.location,
    )


def _run(profile: Profile) -> RunSummary:
    run = profile.run
    with_torch = [process for process in profile.processes if process.role == "trainer" or process.torch]
    trainer = next(iter(with_torch), None)
    hosts = {profile.machine.host, *(one.host for one in profile.elsewhere)}
    return RunSummary(
        **fields_of(run, RunSummary),
        host=profile.machine.host,
        python=trainer.python if trainer else "",
        torch=trainer.torch if trainer else None,
        machine=asdict(profile.machine) | {"hosts": len(hosts)},
        end=end_of(profile),
    )
