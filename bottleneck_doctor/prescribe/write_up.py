"""Writes the report: diagnosis, findings, remedies best first."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from ..analyse.device_summary import summarise
from ..analyse.diagnose import diagnose
from ..analyse.environment import environment
from ..analyse.hot import hot_functions, hot_operators
from ..analyse.ledger import ledger_of
from ..model.diagnosis import Abstention, Diagnosis, Finding
from ..model.profile import Profile
from ..model.report import Abstained, Remedy, Report, ReportedFinding, RunSummary
from .evaluation import (
    evaluation_metrics,
    evaluation_offers,
    examine_evaluation,
    is_asked,
    ranked_together,
    subject_of,
)
from .rank import Offer, offers, remedies, without_trifles_first, worth_saying
from .shelf import entries
from .whole_run import in_whole_run

FEW = "training steps in which a large part of the run passes, and enough of them to be judged"


def write_up(profile: Profile, diagnosis: Diagnosis | None = None) -> Report:
    """Everything that can be said about a profile; pure, and total on valid profiles. Whoever has its
    diagnosis already hands it over."""
    diagnosis = diagnosis or diagnose(profile)
    about = subject_of(diagnosis)
    found, abstained = _examine(diagnosis)
    others = examine_evaluation(diagnosis)
    every = ranked_together(diagnosis, offers(diagnosis, found), evaluation_offers(diagnosis, others))
    ranked = without_trifles_first([offer for offer in every if worth_saying(diagnosis, offer)])
    told = remedies(diagnosis, ranked)
    kept = _kept([*others, *found], ranked)
    return Report(
        run=_run(profile),
        quality=diagnosis.quality,
        metrics=diagnosis.metrics | evaluation_metrics(diagnosis),
        budget=about.budget,
        verdict=diagnosis.verdict,
        phases=diagnosis.phases,
        findings=[_reported(diagnosis, finding, told, ranked) for finding in kept],
        remedies=told,
        abstentions=[Abstained(one.finding, one.missing) for one in abstained],
        environment=environment(profile),
        functions=hot_functions(profile),
        operators=hot_operators(profile),
        device=summarise(diagnosis.device, diagnosis.metrics),
        ledger=ledger_of(diagnosis),
        budget_of=_budget_of(diagnosis, about),
    )


def _budget_of(diagnosis: Diagnosis, about: Diagnosis) -> str:
    """An evaluation within the training loop has no steps of its own."""
    return "training" if about is diagnosis and diagnosis.subject == "evaluation" else diagnosis.subject


def _examine(diagnosis: Diagnosis) -> tuple[list[Finding], list[Abstention]]:
    """Ask every finding. An undecided run has none, and one whose verdict is not about its steps only those
    of that cause: three steps are never a diagnosis."""
    asked = [entry for entry in entries() if is_asked(diagnosis, entry)]
    outcomes = [entry.examine(diagnosis) for entry in asked]
    found = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    silent = [Abstention(one.id, FEW) for one in entries() if one not in asked]
    return found, [*(one for one in outcomes if isinstance(one, Abstention)), *silent]


def _kept(found: list[Finding], ranked: list[Offer]) -> list[Finding]:
    """Findings that have a remedy to offer, or never had one; one that two loops share, of the loop whose
    loader it is offered for."""
    paying = {offer.cure.id for offer in ranked}
    offering = {id(offer.finding) for offer in ranked}
    twice = Counter(one.id for one in found)
    return [
        one
        for one in found
        if not one.cures
        or id(one) in offering
        or (twice[one.id] == 1 and any(cure.id in paying for cure in one.cures))
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
    trainer = next((process for process in profile.processes if process.role == "trainer"), None)
    return RunSummary(
        command=run.command,
        script=run.script,
        cwd=run.cwd,
        started_at=run.started_at,
        duration_s=run.duration_s,
        exit_status=run.exit_status,
        host=profile.machine.host,
        python=trainer.python if trainer else "",
        torch=trainer.torch if trainer else None,
        machine=asdict(profile.machine),
        stopped_by=run.stopped_by,
    )
