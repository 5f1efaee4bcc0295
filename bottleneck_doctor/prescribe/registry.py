"""Takes the findings from their shelf: the folder is the registry, nothing else lists them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType

from .. import findings
from ..findings.parts.entry import Case, Entry
from ..model.diagnosis import Proposal


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
    before, references, after = text.partition("## References\n")
    return f"{before}## Remedies\n{listed}\n{references}{after}" if remedies else text


@cache
def cases_of(module: ModuleType) -> tuple[Case, ...]:
    """The runs on which a finding shows what it does; built only here, since most are replayed."""
    found: tuple[Case, ...] = module.cases()
    return found


@cache
def offered() -> dict[str, dict[str, Proposal]]:
    """Remedy id -> the findings that may propose it, each with the remedy as it declares it; both by name."""
    found: dict[str, dict[str, Proposal]] = {}
    for entry in entries():
        for remedy in entry.remedies:
            found.setdefault(remedy.id, {}).setdefault(entry.id, remedy)
    return dict(sorted(found.items()))
