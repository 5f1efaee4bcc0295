"""How far a training process has come, as its agent posts it while the run goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """``steps`` batches arrived, ``trained`` of them were trained on, ``epoch_at`` before the newest epoch;
    instants are CLOCK_MONOTONIC."""

    pid: int
    steps: int
    trained: int
    wait_ns: int
    first_ns: int
    last_ns: int
    windows: int = 0
    profiled: bool = False  # a window of torch.profiler is open
    epoch_at: int = 0
