"""What hooks found out about the making of one loader's batches, beside its table of fetches."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Making:
    """Means per batch in seconds; ``batches`` are those looked at.

    ``unpack_cpu_s`` and ``unpacked_bytes``: decompression. ``transforms``: CPU by class of transform.
    ``draw_s`` and ``draw_cpu_s``: choosing the indices of a batch, None where that was not timed;
    ``first_draws_s``: the draws with which each epoch began. ``firstlings``: how many of the first batches
    of an iterable data set could be compared between two workers, and how many of them were equal.
    """

    loader: str
    batches: int = 0
    unpack_cpu_s: float = 0.0
    unpacked_bytes: float = 0.0
    transforms: dict[str, float] = field(default_factory=dict)
    draw_s: float | None = None
    draw_cpu_s: float | None = None
    first_draws_s: list[float] = field(default_factory=list)
    firstlings: tuple[int, int] = (0, 0)
