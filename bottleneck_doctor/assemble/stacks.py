"""Says whose each sampled call path is, and cuts a forked worker's memory of its parent off it."""

from __future__ import annotations

from dataclasses import replace

from ..model.profile import Stack

BIRTH = ("_worker_loop ", "_life.<locals>._worker_loop ")


def read_stacks(stacks: list[Stack]) -> list[Stack]:
    """A worker's path begins in its loop; forked processes carry their parent's frames above it."""
    return [_placed(stack) for stack in stacks]


def _placed(stack: Stack) -> Stack:
    births = [place for place, frame in enumerate(stack.frames) if frame.startswith(BIRTH)]
    if not births:
        return replace(stack, role="trainer")
    return replace(stack, role="worker", frames=stack.frames[births[-1] :])
