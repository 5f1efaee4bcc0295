"""Runs on which each finding fires, stays silent or abstains: a module for each family of findings."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from bottleneck_doctor.findings.registry import FAMILIES, entries_of
from tests.findings.builders import Case


@cache
def cases_of(finding: str) -> tuple[Case, ...]:
    """The cases of a finding; built on demand, since most are replayed."""
    (family,) = (name for name in FAMILIES if finding in {one.id for one in entries_of(name)})
    found: tuple[Case, ...] = getattr(import_module(f"{__name__}.{family}"), finding.replace("-", "_"))()
    return found
