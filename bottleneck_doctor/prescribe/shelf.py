"""Takes the findings from their shelf: the folder is the registry, nothing else lists them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType

from .. import findings
from ..findings.parts.case import Case
from ..findings.parts.entry import Entry
from ..model.diagnosis import Finding, Proposal


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every file on the shelf that exports a FINDING, by name."""
    names = sorted(info.name for info in pkgutil.iter_modules(findings.__path__))
    found = (importlib.import_module(f"{findings.__name__}.{name}") for name in names)
    return tuple(module for module in found if hasattr(module, "FINDING"))


def entries() -> list[Entry]:
    """All findings."""
    return [module.FINDING for module in modules()]


def pages() -> dict[str, str]:
    """The page of each finding, by id: its file's docstring, with the remedies of its entry."""
    return {module.FINDING.id: _page(module) for module in modules()}


def _page(module: ModuleType) -> str:
    text, remedies = inspect.cleandoc(module.__doc__ or ""), module.FINDING.remedies
    listed = "".join(f"- `{one.id}`: {one.title}\n" for one in remedies)
    return text.replace(REFERENCES, f"## Remedies\n{listed}\n{REFERENCES}") if remedies else text


def cases_of(module: ModuleType) -> tuple[Case, ...]:
    """The runs on which a finding shows what it does; built only here, since most are replayed."""
    found: tuple[Case, ...] = module.cases()
    return found


REFERENCES = "## References\n"
NAMED = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`")
SECTION = re.compile(r"^## Remedies\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class RemedyPage:
    """A remedy: the findings whose page offers it, and one cure from the cases of each that shows it."""

    findings: list[str] = field(default_factory=list)
    proposals: dict[str, Proposal] = field(default_factory=dict)


@cache
def offered() -> dict[str, list[str]]:
    """Remedy id -> ids of the findings that offer it, both by name."""
    found: dict[str, list[str]] = {}
    for entry in entries():
        page = pages()[entry.id]
        names = [one.id for one in entry.remedies] or NAMED.findall("".join(SECTION.findall(page)))
        for remedy in dict.fromkeys(names):
            found.setdefault(remedy, []).append(entry.id)
    return dict(sorted(found.items()))


def show(remedy: str) -> RemedyPage:
    """The remedy with its cures; costs the cases of the findings that offer it."""
    findings = offered().get(remedy, [])
    proposals = {finding: proposal for finding in findings if (proposal := _proposals(finding).get(remedy))}
    return RemedyPage(findings, proposals)


@cache
def _proposals(finding: str) -> dict[str, Proposal]:
    """One cure for each remedy that the finding's own cases come to."""
    found: dict[str, Proposal] = {}
    for module in modules():
        if module.FINDING.id == finding and module.FINDING.remedies:
            return {one.id: one for one in reversed(module.FINDING.remedies)}  # the first of an id
        if module.FINDING.id == finding:
            for outcome in _outcomes(module):
                for proposal in outcome.proposals:
                    found.setdefault(proposal.id, proposal)
    return found


def _outcomes(module: ModuleType) -> list[Finding]:
    outcomes = [module.FINDING.ask(case.diagnosis) for case in cases_of(module)]
    return [one for one in outcomes if isinstance(one, Finding)]
