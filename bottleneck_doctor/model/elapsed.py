"""How the life of one training process divides, by what its training thread was seen to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Elapsed:
    """Seconds that do not overlap, and instants.

    ``preparing_s`` goes until the training begins at ``first_s``; ``training_s`` and ``evaluation_s`` are in
    their loops, ``starting_s`` and ``starting_evaluation_s`` what beginning these with new workers takes
    beyond a usual batch (``first_start_s`` of it at the first beginning), ``stopping_s`` waiting for workers
    to end, ``checkpoint_s`` saving, in loops or not, ``profiled_s`` steps under torch.profiler, ``between_s``
    all else until ``last_s``, the end of the last loop. ``beginnings`` counts those with workers. At
    ``exit_s`` the interpreter began to shut down; None where it was not heard to.
    """

    pid: int
    first_s: float
    last_s: float
    exit_s: float | None = None
    preparing_s: float = 0.0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    starting_s: float = 0.0
    starting_evaluation_s: float = 0.0
    first_start_s: float = 0.0
    stopping_s: float = 0.0
    checkpoint_s: float = 0.0
    profiled_s: float = 0.0
    between_s: float = 0.0
    beginnings: int = 0
