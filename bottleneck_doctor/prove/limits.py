"""What one trial may take: time, silence and memory; and how these follow from a run that went well."""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_TIMES = 3.0  # of what the baseline needed, a treatment that is no slower than that may take
WHOLE_MORE_S = 30.0  # on a machine that is busy for a moment
START_TIMES = 3.0  # torch's import from a cold cache, spawned workers; and the whole run once more, for a
START_MORE_S = 20.0  # treatment may make at the start what else is made on the way
SILENT_STEPS = 20.0  # times a step, without a batch: nothing that trains is as uneven (ours)
SILENT_GAPS = 3.0  # times the longest gap that the baseline had between two batches: it may evaluate or save
SILENT_S = 20.0


@dataclass(frozen=True)
class Limits:
    """Bounds of one trial. ``steps`` are trained and then the training is ended; ``seconds`` are all that it
    may take, from its start to its end; ``first_batch_s`` from its start, ``silence_s`` between two batches
    and after the last. ``memory_bytes``: what its processes together may hold, None for what there is.

    Where nothing is known of the training yet, it may load a large model, or evaluate, for minutes."""

    steps: int
    seconds: float
    first_batch_s: float = 600.0
    silence_s: float = 300.0
    memory_bytes: int | None = None


def limits_after(
    steps: int, run_s: float, step_s: float, first_batch_s: float, longest_gap_s: float = 0.0
) -> Limits:
    """The limits for trials of so many steps, from a baseline that took ``run_s`` from start to end, had a
    mean step of ``step_s``, its first batch ``first_batch_s`` after the start, and no gap between two batches
    longer than ``longest_gap_s``."""
    assert steps > 0 and min(run_s, step_s, first_batch_s, longest_gap_s) >= 0
    return Limits(
        steps,
        seconds=WHOLE_TIMES * run_s + WHOLE_MORE_S,
        first_batch_s=START_TIMES * first_batch_s + START_MORE_S + run_s,
        silence_s=max(SILENT_S, SILENT_STEPS * step_s, SILENT_GAPS * longest_gap_s),
    )
