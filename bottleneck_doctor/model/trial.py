"""A trial: one run of the training with remedies that the agent applies, and what the agent told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ENVIRONMENT = "environment"  # the treatment that is no hook: its options are variables, set before the start


@dataclass(frozen=True)
class Treatment:
    """What applies a remedy without an edit: ``name`` is that of a file in agent/treatments, or
    ``ENVIRONMENT``; ``options`` are plain JSON values, and mean what that file says they mean."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """What one trial asks of the agent. ``losses``: so many first backward passes are noted, and as many
    batches; ``seed``: where the script sets none, random numbers begin with it."""

    treatments: list[Treatment] = field(default_factory=list)
    losses: int = 0
    seed: int | None = None


@dataclass(frozen=True)
class Treated:
    """What became of one treatment in one process; ``why`` it was not applied, "" where it was."""

    name: str
    pid: int
    why: str = ""


@dataclass(frozen=True)
class Losses:
    """The first losses of one training process, each as ``float.hex`` or "nan" or "inf", in order, and the
    checksums of the batches that its loop was given, in order."""

    pid: int
    rank: int | None = None
    values: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Trial:
    """What was asked for, and what was done and seen."""

    order: Order = field(default_factory=Order)
    treated: list[Treated] = field(default_factory=list)
    losses: list[Losses] = field(default_factory=list)
