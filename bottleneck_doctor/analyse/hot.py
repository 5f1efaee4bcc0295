"""Which functions the training thread and the workers were in, and which operators the step is made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..model.code import Location
from ..model.derived import HotFunction, HotOperator
from ..model.instruments import Operator, Stack
from ..model.profile import Profile
from .intervals import SAMPLES_AT_LEAST
from .loop_parts import is_ours, is_users, parse_frame

LISTED = 20  # of each role's own and of its library functions: what a person reads, and no profile grows with
LEAST = 0.005  # of the samples, below which a function is noise at the few hundred that a window takes

Key = tuple[str, str]  # function, file


@dataclass
class SampleCounts:
    """Samples of one role, counted by function."""

    samples: int = 0
    own: Counter[Key] = field(default_factory=Counter)
    total: Counter[Key] = field(default_factory=Counter)
    lines: dict[Key, Counter[int]] = field(default_factory=dict)
    users: set[Key] = field(default_factory=set)
    looked: Counter[Key] = field(default_factory=Counter)  # own samples, where it was seen who slept
    awake: Counter[Key] = field(default_factory=Counter)


def hot_functions(profile: Profile) -> list[HotFunction]:
    """The user's functions first, then those of libraries; each by what it took itself."""
    found = []
    for role in ("trainer", "worker"):
        tally = SampleCounts()
        for stack in profile.stacks:
            if role_of(profile, stack) == role:
                _count(tally, stack)
        found += _listed(tally, role)
    return sorted(found, key=lambda one: (not one.users, -one.own_share, -one.total_share, one.function))


def role_of(profile: Profile, stack: Stack) -> str:
    """Whose samples these are: a training thread's (trainer), a loader worker's (worker), or others' (other),
    as those of feeder threads, of launchers and of servers."""
    if "Main" not in stack.thread:
        return "other"
    if stack.role == "worker":
        return "worker"
    trains = {loop.pid for loop in profile.loops if loop.role == "train"}
    return "trainer" if stack.pid in trains | {one.pid for one in profile.outside} else "other"


def _count(tally: SampleCounts, stack: Stack) -> None:
    tally.samples += stack.count
    places = [place for place in map(parse_frame, stack.frames) if place is not None]
    places = [place for place in places if not is_ours(place.file)]
    for place in places:
        lines = tally.lines.setdefault((place.function, place.file), Counter())
        lines[place.line] += stack.count
    for key in {(place.function, place.file) for place in places}:
        tally.total[key] += stack.count
    users = [(place.function, place.file) for place in places if is_users(place.file)]
    tally.users.update(users)
    own = users[-1:]
    if places and not is_users(places[-1].file):
        own.append((places[-1].function, places[-1].file))
    for key in own:
        tally.own[key] += stack.count
        if stack.running is not None:
            tally.looked[key] += stack.count
            tally.awake[key] += stack.running


def _listed(tally: SampleCounts, role: str) -> list[HotFunction]:
    if not tally.samples:  # stacks that only the look at awake threads has met
        return []
    found = [_function(tally, key, role) for key, _ in tally.own.most_common()]
    found = [one for one in found if one.own_share >= LEAST]
    own = [one for one in found if one.users]
    return own[:LISTED] + [one for one in found if not one.users][:LISTED]


def _function(tally: SampleCounts, key: Key, role: str) -> HotFunction:
    function, file = key
    (line, _), *_ = tally.lines[key].most_common(1)
    looked = tally.looked[key]  # at other instants than the samples: chance may let it see a little more
    return HotFunction(
        function=function,
        location=Location(file, line, function),
        role=role,
        users=key in tally.users,
        own_share=tally.own[key] / tally.samples,
        total_share=tally.total[key] / tally.samples,
        n=tally.samples,
        on_cpu_share=min(1.0, tally.awake[key] / looked) if looked >= SAMPLES_AT_LEAST else None,
    )


def hot_operators(profile: Profile) -> list[HotOperator]:
    """The profiled step's operators, the dearest first: by the accelerator's time where it computed them."""
    device = any(one.self_device_s for one in profile.operators)

    def cost(one: Operator | HotOperator) -> float:
        return one.self_device_s if device else one.self_cpu_s

    whole = sum(map(cost, profile.operators)) or 1.0
    found = [
        HotOperator(one.name, one.calls, one.self_cpu_s, one.self_device_s, cost(one) / whole)
        for one in profile.operators
    ]
    return sorted(found, key=lambda one: (-cost(one), one.name))[: 2 * LISTED]
