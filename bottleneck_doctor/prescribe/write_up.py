"""Writes the report: diagnosis, findings, remedies best first."""

from __future__ import annotations

from dataclasses import asdict

from ..analyse.device_summary import summarise
from ..analyse.diagnose import diagnose
from ..analyse.environment import environment
from ..analyse.hot import hot_functions, hot_operators
from ..model.diagnosis import Abstention, Diagnosis, Finding
from ..model.profile import Profile
from ..model.report import Abstained, Remedy, Report, ReportedFinding, RunSummary
from .rank import Offer, offers, remedies, worth_saying
from .shelf import entries
from .whole_run import in_whole_run


def write_up(profile: Profile, diagnosis: Diagnosis | None = None) -> Report:
    """Everything that can be said about a profile; pure, and total on valid profiles. Whoever has its
    diagnosis already hands it over."""
    diagnosis = diagnosis or diagnose(profile)
    found, abstained = _examine(diagnosis)
    ranked = [offer for offer in offers(diagnosis, found) if worth_saying(diagnosis, offer)]
    paying = {cure.id for _, cure, _ in ranked}
    told = remedies(diagnosis, ranked)
    kept = [one for one in found if not one.cures or any(cure.id in paying for cure in one.cures)]
    return Report(
        run=_run(profile),
        quality=diagnosis.quality,
        metrics=diagnosis.metrics,
        budget=diagnosis.budget,
        verdict=diagnosis.verdict,
        phases=diagnosis.phases,
        findings=[_reported(diagnosis, finding, told, ranked) for finding in kept],
        remedies=told,
        abstentions=[Abstained(one.finding, one.missing) for one in abstained],
        environment=environment(profile),
        functions=hot_functions(profile),
        operators=hot_operators(profile),
        device=summarise(diagnosis.device, diagnosis.metrics),
    )


def _examine(diagnosis: Diagnosis) -> tuple[list[Finding], list[Abstention]]:
    """Ask every finding. An undecided run has none: three steps are never a diagnosis."""
    if diagnosis.verdict.bound == "inconclusive":
        return [], [Abstention(entry.id, diagnosis.verdict.summary) for entry in entries()]
    outcomes = [entry.examine(diagnosis) for entry in entries()]
    found = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    return found, [outcome for outcome in outcomes if isinstance(outcome, Abstention)]


def _reported(
    diagnosis: Diagnosis, finding: Finding, told: list[Remedy], ranked: list[Offer]
) -> ReportedFinding:
    mine = [remedy for remedy in told if remedy.finding == finding.id]
    helps = any(remedy.predicted_speedup.likely > 1 for remedy in mine)
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
