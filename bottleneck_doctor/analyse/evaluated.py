"""Finds evaluation without a loader: forward passes within the training loop that nothing is trained on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..model.profile import Location, Loop, Outside, Profile
from .loop_parts import Sample, training_samples
from .purpose import BESIDE, LOG, MEASURE, purpose_of

PART = "evaluation"
Call = tuple[int, str]  # the loop's line, and the user's function that it calls
FORWARDS = 0.2  # of the samples of what a line calls: fewer, and it only uses the model (ours)
SAMPLES_AT_LEAST = 20  # of one call: below, its share of the loop is a guess (ours)


@dataclass(frozen=True)
class Evaluated:
    """The share of the training loop's time, by stack samples, and the line of it that evaluates most."""

    share: float = 0.0
    place: Location | None = None
    calls: frozenset[Call] = frozenset()

    def mark(self, samples: list[Sample]) -> list[Sample]:
        """The samples with a part of their own for evaluation."""
        return [replace(one, part=PART) if _call(one) in self.calls else one for one in samples]


def find_evaluated(profile: Profile, loop: Loop | None, outside: Outside | None) -> Evaluated:
    """What the loop evaluates itself; nothing where its source was not kept."""
    known = loop if loop is not None else outside
    if known is None or known.thread != 0 or not profile.sources:
        return Evaluated()
    samples = training_samples(profile, known.pid, known.body)
    groups: dict[Call, list[Sample]] = {}
    for one in samples:
        groups.setdefault(_call(one), []).append(one)
    found = {call: group for call, group in groups.items() if _evaluates(profile, group)}
    if not found:
        return Evaluated()
    share = sum(map(_count, found.values())) / _count(samples)
    (line, _), group = max(found.items(), key=lambda one: _count(one[1]))
    body, place = known.body, group[0].called
    if body is not None:
        place = Location(body.file, line, body.function)
    return Evaluated(share, place, frozenset(found))


def _call(one: Sample) -> Call:
    return one.line, one.called.function if one.called is not None else ""


def _evaluates(profile: Profile, group: list[Sample]) -> bool:
    total = _count(group)
    forwards = _count([one for one in group if one.part in ("forward", "loss")])
    if total < SAMPLES_AT_LEAST or forwards < FORWARDS * total:
        return False
    return purpose_of(profile.sources, [one.stack for one in group]).what in (BESIDE, MEASURE, LOG)


def _count(samples: list[Sample]) -> int:
    return sum(one.stack.count for one in samples)
