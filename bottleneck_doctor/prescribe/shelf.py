"""Takes the findings from their shelf: the folder is the registry, nothing else lists them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType

from .. import findings
from ..findings.entry import Case, Entry


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
    """The page of each finding, by id: its file's docstring."""
    return {module.FINDING.id: inspect.cleandoc(module.__doc__ or "") for module in modules()}


def cases_of(module: ModuleType) -> tuple[Case, ...]:
    """The runs on which a finding shows what it does; built only here, since most are replayed."""
    found: tuple[Case, ...] = module.cases()
    return found
