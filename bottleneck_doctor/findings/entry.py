"""What every file on the shelf exports: an id and how to examine a diagnosis for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model.diagnosis import Abstention, Diagnosis, Finding

Examine = Callable[[Diagnosis], "Finding | Abstention | None"]


@dataclass(frozen=True)
class Entry:
    """A finding as the shelf holds it. ``cause`` is the contract's cause that it belongs to."""

    id: str
    cause: str
    examine: Examine


@dataclass(frozen=True)
class Case:
    """A diagnosis and what must come of it: ``fires``, ``silent`` or ``abstains``."""

    name: str
    diagnosis: Diagnosis
    outcome: str
    remedy: str = ""
