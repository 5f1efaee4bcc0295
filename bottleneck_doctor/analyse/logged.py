"""Finds logging and saving that no hook times, a dump into a file say, by stacks and the user's source."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ..model.diagnosis import Step
from ..model.loops import Loop
from ..model.profile import Profile
from .purpose import LOG, Purpose, purpose_at
from .split import SAMPLES_AT_LEAST, own_samples

TIMED = ("backward", "optimizer", "exchange")  # by hooks, in each step
# What the model says is written out, too; the others have hooks of their own.
ELSEWHERE = ("forward", "checkpoint", *TIMED)
SHARE = 0.05  # of the loop's samples, below which a few of them are chance (ours)


@dataclass(frozen=True)
class Logged:
    """The share of the loop's samples, outside of its loaders, in what is written out; most of it is
    ``purpose``, and in the part ``asleep`` of it the loop slept."""

    share: float = 0.0
    samples: int = 0
    purpose: Purpose | None = None
    asleep: float = 0.0


def logged(profile: Profile, loop: Loop | None) -> Logged:
    """What stacks prove; nothing from a few samples, or where no source is kept."""
    samples = own_samples(profile, loop) if loop is not None and profile.sources else []
    total = sum(one.stack.count for one in samples)
    found: Counter[Purpose] = Counter()
    asleep = 0
    for one in samples:
        purpose = purpose_at(profile.sources, one.stack)
        if purpose.what == LOG and one.part not in ELSEWHERE:
            found[purpose] += one.stack.count
            running = one.stack.count if one.stack.running is None else one.stack.running
            asleep += max(0, one.stack.count - running)
    count = sum(found.values())
    if total < SAMPLES_AT_LEAST or count < SHARE * total:
        return Logged()
    return Logged(count / total, count, found.most_common(1)[0][0], asleep / count)


def with_written(profile: Profile, loop: Loop | None, steps: list[Step]) -> list[Step]:
    """The steps with what stacks say of logging and saving called that, in place of the rest that nothing
    explains."""
    samples = [one for one in own_samples(profile, loop) if one.part not in TIMED]
    total = sum(one.stack.count for one in samples)
    saved = sum(one.stack.count for one in samples if one.part == "checkpoint")
    steps = _moved(steps, "logging", logged(profile, loop).samples / max(total, 1))
    return _moved(steps, "checkpoint", saved / total if saved >= SAMPLES_AT_LEAST else 0.0)


def _moved(steps: list[Step], part: str, share: float) -> list[Step]:
    """The steps with such a share of what no other hook times in a part, as far as its own did not see it.

    A look at the stacks takes a core, and threads that compute together wait for it: parts that compute hold
    more samples than time. Hooks know the time of some."""
    rest = sum(step.compute * step.steps for step in steps)
    hooked = sum(getattr(step, part) * step.steps for step in steps)
    more = min(1.0, max(0.0, share * (rest + hooked) - hooked) / rest) if rest > 0 else 0.0
    if not more:
        return steps
    return [
        replace(step, compute=(1 - more) * step.compute, **{part: getattr(step, part) + more * step.compute})
        for step in steps
    ]
