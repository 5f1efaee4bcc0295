"""Labels the stack samples of a loop's thread, once: data, evaluation, logging, checkpoint, training."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace

from ..model.loops import Loop
from ..model.profile import Profile
from ..source.purpose import LOG, purpose_at
from .between_epochs import stacks_between
from .evaluation import Evaluated, find_evaluated
from .loop_parts import LoopSample, data_samples, training_samples
from .shares import PART
from .steps import SAMPLES_AT_LEAST

TIMED = ("backward", "optimizer", "exchange")  # by hooks, in each step
# Never logging: a forward pass whose result is logged is the model's; the others have hooks of their own.
ELSEWHERE = ("forward", "checkpoint", *TIMED)
OWN = ("training", "logging", "checkpoint")  # labels of what a loop does other than getting batches


@dataclass(frozen=True)
class Attribution:
    """The samples of a loop's thread, and what of the loop is an evaluation of the model.

    Labels: ``evaluation`` of the model within the loop; ``data``, getting a batch; ``between`` epochs; of the
    rest ``checkpoint``, ``logging`` (it is written out, and no hook times it) and ``training``. ``own`` holds
    these three, of the main thread; there all of a function that saves has the part "checkpoint".
    """

    profile: Profile
    loop: Loop | None
    samples: list[LoopSample] = field(default_factory=list)
    evaluated: Evaluated = field(default_factory=Evaluated)
    own: list[LoopSample] = field(default_factory=list)

    def labelled(self, label: str) -> list[LoopSample]:
        """Those with this label."""
        return [one for one in self.samples if one.label == label]


# A report asks dozens of times about one or two loops; profiles are compared by identity.
_RECENT: deque[Attribution] = deque(maxlen=4)


def attribute(profile: Profile, loop: Loop | None) -> Attribution:
    """The labelled samples of a loop; they do not depend on its table of steps."""
    if loop is None:
        return Attribution(profile, None)
    for one in _RECENT:
        if one.profile is profile and one.loop is not None and _is_same(one.loop, loop):
            return one
    samples = training_samples(profile, loop.pid, loop.body)
    evaluated = find_evaluated(profile, loop, samples)
    training = () if loop.loader else [one for one in samples if one.call not in evaluated.calls]
    data = {id(one) for one in data_samples(training, loop.body)}
    between = {id(one) for one in stacks_between(profile, loop)}

    def elsewhere(one: LoopSample) -> str:
        """The label of what is not the loop's own work."""
        if one.call in evaluated.calls:
            return "evaluation"
        if id(one.stack) in between or not one.stack.frames:
            return "between"
        return "data" if one.part == "data" or id(one) in data else ""

    samples = [replace(one, label=elsewhere(one)) for one in samples]
    saved = saving_calls([one for one in samples if not one.label])
    samples = [one if one.label else _worked(profile, one, saved) for one in samples]
    own = [
        replace(one, part="checkpoint") if one.label == "checkpoint" else one
        for one in samples if loop.thread == 0 and one.label in OWN
    ]  # fmt: skip
    found = Attribution(profile, loop, samples, evaluated, own)
    _RECENT.append(found)
    return found


def _is_same(one: Loop, other: Loop) -> bool:
    mine, its = ((loop.pid, loop.thread, loop.loader) for loop in (one, other))
    return mine == its and one.body is other.body


def _worked(profile: Profile, one: LoopSample, saved: set[tuple[int, str]]) -> LoopSample:
    """A sample of the loop's own work, labelled checkpoint, logging or training."""
    purpose = purpose_at(profile.sources, one.stack)
    if one.part == "checkpoint" or one.call in saved:
        return replace(one, label="checkpoint", purpose=purpose)
    logs = purpose.what == LOG and one.part not in ELSEWHERE
    return replace(one, label="logging" if logs else "training", purpose=purpose)


def saving_calls(samples: list[LoopSample]) -> set[tuple[int, str]]:
    """The calls that count as a checkpoint in full: a function that saves also copies weights, renames files
    and waits for the disk, which no hook times. Where the loop was not found, it may be the one around it."""
    counts, hooked = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for one in samples:
        if one.called is not None and one.line:
            counts[one.call] += one.stack.count
            hooked[one.call] += one.stack.count if one.part == "checkpoint" else 0
    return {call for call, n in counts.items() if n >= SAMPLES_AT_LEAST and hooked[call] >= PART * n}
