"""Finds evaluation without a loader: forward passes within the training loop that nothing is trained on."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from ..model.profile import Location, Loop, Outside, Profile
from ..model.source import Source
from . import code
from .loop_parts import Sample, training_samples
from .purpose import BESIDE, LOG, MEASURE, purpose_of, users_path

PART = "evaluation"
Call = tuple[int, str]  # the loop's line, and the user's function that it calls
GRADIENTS_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled|\.eval\(")
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
    stacks = [one.stack for one in group]
    if purpose_of(profile.sources, stacks).what not in (BESIDE, MEASURE, LOG):
        return False
    return any(
        _says_so(profile.sources, place) for place in users_path(max(stacks, key=lambda one: one.count))
    )


def _says_so(sources: list[Source], place: Location) -> bool:
    """Whether gradients are off there, or the model is told to evaluate: by the function that is called, or
    around the training loop's own line."""
    source = code.source_at(sources, place)
    if source is None or not code.runs_backward(source):
        return source is not None and GRADIENTS_OFF.search(source.text) is not None
    tree = code.tree_of(source)
    around = code.statements_around(tree, place.line) if tree is not None else []
    heads = [ast.unparse(part) for one in around if isinstance(one, ast.With) for part in code.header(one)]
    return any(GRADIENTS_OFF.search(head) is not None for head in heads)


def _count(samples: list[Sample]) -> int:
    return sum(one.stack.count for one in samples)
