"""The run as a whole: what the steady step leaves out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Whole:
    """Seconds of a whole run, in training and in evaluation, of the process that the report is about."""

    run_s: float = 0.0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    evaluations: int = 0
