"""The run as a whole: what the steady step leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from .profile import Location


@dataclass(frozen=True)
class Whole:
    """Seconds of a whole run, in training and in evaluation, of the process that the report is about.

    Of both, ``starting_s`` went into starting and stopping workers, ``checkpoint_s`` into saving; ``steps_s``
    is what the training's steps took without these. ``evaluated_at`` is where the training loop evaluates
    without a loader; such an evaluation's time is known from stack samples, their number is not.
    """

    run_s: float = 0.0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    evaluations: int = 0
    starting_s: float = 0.0
    checkpoint_s: float = 0.0
    steps_s: float = 0.0
    evaluated_at: Location | None = None
