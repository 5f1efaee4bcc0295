"""All findings and remedies: each family is a module with its functions, and a page for each of them."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module
from types import ModuleType

from ..model.diagnosis import Proposal
from .parts.entry import Entry

FAMILIES = (
    "containers cpu_compute decode device_compute device_health device_transfer host_loop "
    "input memory precision ranks sample_code saving_logging storage threads workers"
).split()
HEADING = re.compile(r"^# (.+)\n", re.MULTILINE)


@cache
def families() -> dict[str, ModuleType]:
    """The module of each family, by name."""
    return {name: import_module(f"{__package__}.{name}") for name in FAMILIES}


def entries() -> list[Entry]:
    """All findings, by id."""
    return sorted((one for name in FAMILIES for one in entries_of(name)), key=lambda one: one.id)


def entries_of(family: str) -> list[Entry]:
    """The findings of a family."""
    return [one for one in vars(families()[family]).values() if isinstance(one, Entry)]


def pages() -> dict[str, str]:
    """The page of each finding, by id: its section of the family's file, and its remedies."""
    written: dict[str, str] = {}
    for name in FAMILIES:
        text = pkgutil.get_data(f"{__package__}", f"pages/{name}.md") or b""
        parts = HEADING.split(text.decode())
        written |= dict(zip(parts[1::2], parts[2::2], strict=True))
    return {entry.id: _with_remedies(written[entry.id].strip(), entry) for entry in entries()}


def _with_remedies(text: str, entry: Entry) -> str:
    listed = "".join(f"- `{one.id}`: {one.title}\n" for one in entry.remedies)
    before, references, after = text.partition("## References\n")
    return f"{before}## Remedies\n{listed}\n{references}{after}" if entry.remedies else text


@cache
def offered() -> dict[str, dict[str, Proposal]]:
    """Remedy id -> the findings that may propose it, each with the remedy as it declares it; both by name."""
    found: dict[str, dict[str, Proposal]] = {}
    for entry in entries():
        for remedy in entry.remedies:
            found.setdefault(remedy.id, {}).setdefault(entry.id, remedy)
    return dict(sorted(found.items()))
