"""What a profile knows of a training on several ranks: models shared among them, and backward passes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Parallel:
    """A model wrapped for several ranks (kind ``ddp``, or ``fsdp`` and DeepSpeed's ``zero`` where each has a
    part of it), or for several devices of one process (``dp``).

    A sharded model's ``gradient_bytes`` are all ranks', its ``arguments`` of all its ``groups`` that exchange
    at one time; ``resharded`` those that drop gathered parameters after the forward pass.
    ``bucket_bytes`` are the buckets in which gradients travel, as the wrapper rebuilt them; ``unused_bytes``
    the gradients that its newest sampled pass left out; both None until the training had run for a while.
    """

    pid: int
    kind: str
    file: str = ""
    line: int = 0
    function: str = ""
    parameters: int = 0
    gradient_bytes: int = 0
    buffers: int = 0
    devices: int = 1
    world_size: int = 1
    backend: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    bucket_bytes: list[int] | None = None
    unused_bytes: int | None = None
    comm_hook: str = ""


@dataclass(frozen=True)
class Passes:
    """Backward passes of one process that were looked at; medians, in seconds.

    ``local_s`` is the time until this rank's own gradients were finished, ``exchange_s`` what it then slept
    until the pass returned, ``exchange_queue_s`` and ``exchange_cpu_s`` its waiting for a core and its CPU
    meanwhile (copying gradients back). ``shared`` = gradients were exchanged; ``in_optimizer`` counts the
    passes that an optimizer called for itself (a closure); ``per_step`` = such passes, shared or not, per
    optimizer step.
    """

    pid: int
    shared: bool
    count: int
    in_optimizer: int
    per_step: float
    local_s: float
    exchange_s: float
    exchange_queue_s: float
    exchange_cpu_s: float


@dataclass(frozen=True)
class Ranks:
    """All of it."""

    parallel: list[Parallel] = field(default_factory=list)
    passes: list[Passes] = field(default_factory=list)
