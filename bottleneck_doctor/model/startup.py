"""Where the start of a training process went, until its first batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Startup:
    """Seconds of consecutive stretches: the launch until Python runs, until torch is imported, importing
    torch, until the first loader is built, until its first batch. Of the stretches beside torch's own,
    ``imports_s`` went into importing other modules and ``torch_late_s`` into what torch imports later on,
    with the first optimizer for example.
    """

    pid: int
    launch_s: float
    before_torch_s: float
    torch_s: float
    before_loader_s: float
    first_batch_s: float
    imports_s: float
    torch_late_s: float = 0.0
