"""Says whose each sampled call path is, from its root in a worker's loop, and what of it can be believed."""

from __future__ import annotations

from dataclasses import replace

from ..model.profile import Process, Stack

BIRTH = ("_worker_loop ", "_life.<locals>._worker_loop ")
# Since then an interpreter keeps its threads' system ids; before, py-spy takes all but one thread for awake.
SAYS_WHO_SLEEPS = (3, 11)


def read_stacks(stacks: list[Stack], processes: list[Process]) -> list[Stack]:
    """A worker's path begins in its loop; forked processes carry their parent's frames above it."""
    pythons = {one.pid: one.python for one in processes}
    usual = processes[0].python if processes else ""
    return [_believed(_placed(stack), pythons.get(stack.pid) or usual) for stack in stacks]


def _placed(stack: Stack) -> Stack:
    births = [place for place, frame in enumerate(stack.frames) if frame.startswith(BIRTH)]
    if not births:
        return replace(stack, role="trainer")
    return replace(stack, role="worker", frames=stack.frames[births[-1] :])


def _believed(stack: Stack, python: str) -> Stack:
    parts = [int(part) for part in python.split(".")[:2] if part.isdigit()]
    old = bool(parts) and tuple(parts) < SAYS_WHO_SLEEPS
    return replace(stack, running=None) if old else stack
