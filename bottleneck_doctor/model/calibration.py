"""What was timed after the training had ended, on its own files and on batches of its shapes: facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Calibration:
    """One way of doing one thing, timed on ``loader``'s own objects.

    ``subject`` is what was done: ``read`` (one read call at a random place), ``file`` (one small file opened,
    read and closed), ``picture`` (one decoded), ``moving`` (one batch from workers to the loop), ``using``
    (one batch touched and freed in the loop), ``files`` (looked at only). ``variant`` is how.
    ``seconds`` is the wall time of one of them, net of waiting for a core, ``cpu_s`` the CPU in it; both are
    means over ``repeats``, with ``depth`` of them under way at once. ``size_bytes`` is what one of them is
    made of.

    ``product``, ``convolution``, ``attention`` and ``optimizer`` are of no loader (""): all of that kind in
    a step, forward and backward; ``seconds`` adds up what was typical of ``repeats`` rounds or more,
    ``cpu_s`` is 0. Variant ``now`` is as the training does it.
    """

    loader: str
    subject: str
    variant: str
    seconds: float
    cpu_s: float
    repeats: int
    depth: int = 1
    size_bytes: float = 0.0
