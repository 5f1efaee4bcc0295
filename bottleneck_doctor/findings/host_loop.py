"""Python in the training process: hot lines, garbage collection, interpreter lock, debug modes, compiling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from statistics import fmean

from ..analyse.attribution import attribute, epoch_ends, stacks_between
from ..analyse.loop_cpu import is_library, lock_wait, witnessed
from ..analyse.predict import TRIFLE, WORTH, gain
from ..analyse.replay import step_seconds
from ..analyse.shares import MOST, NOTICED
from ..analyse.steps import seconds_in, steps_in
from ..model.code import Location
from ..model.device import DeviceWindow
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.instruments import Stack
from ..model.profile import ScriptSettings
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from ..source import code
from ..source.files import is_users, parse_frame, users_path
from ..source.purpose import LOG, MEASURE, TRAINING, UNNEEDED, Purpose, purpose_of
from .facts import (
    GUARDS,
    MOST_SPARED,
    PROFILER,
    SETTINGS,
    advised,
    compiler_notes,
    device_of,
    kernel_share,
    noted,
    operations_of,
    operators,
    own_s,
    share_of,
    spared,
    step_share,
    switches,
)
from .lines import STACKS, named, quoted, rarely
from .registry import OnCpu, finding, given, loader_loop, snippet
from .remedies import MOSTLY, PARTLY, WHOLLY, Factor, capped, each, left_of, priced, spread

# host-python-hot
ENDS = "hooks on the loader"
COUNTED = snippet("host_loop", "COUNTED")
ARRAYS = snippet("host_loop", "ARRAYS")
EVERY_TENTH = "STEP % 10 == 0"
METRIC = "MEASURE(OUTPUT, TARGET)"
VECTORISE = Proposal(
    id="vectorise-loop-code",
    title="compute on whole tensors what Python computes one by one",
    fix=Fix("replace the loop by operators on all elements", ARRAYS),
    effort="hours",
    risk="check that the numbers stay the same",
    basis="bound",
)
SELDOM = Proposal(
    id="metrics-less",
    title="measure every tenth step only",
    fix=Fix("nothing that is trained needs it", rarely(EVERY_TENTH, METRIC)),
    risk="a metric over a tenth of the batches is noisier",
    basis="amdahl",
)
CHEAPER = Proposal(
    id="cheaper-step-code",
    title="spend less time in this line of the step",
    fix=Fix("spare this line work", "# once, not in each step; less often; on fewer elements; by one call"),
    effort="hours",
    risk="check that the numbers stay the same",
    basis="bound",
)
SEEN = {
    TRAINING: "what this line makes becomes part of the loss",
    MEASURE: "nothing that is trained needs what this line measures",
    UNNEEDED: "nothing that is trained needs what this line makes",
}


@dataclass(frozen=True)
class Hot:
    """The line with most of the loop's samples outside of torch, their number, and the line's purpose."""

    line: Location
    seen: int
    total: int
    purpose: Purpose

    @property
    def share(self) -> float:
        """Share of the loop's samples."""
        return self.seen / self.total


class PythonOrProfile(OnCpu):
    """Needs a profiled step, unless stack samples have already shown time in Python."""

    def __call__(self, diagnosis: Diagnosis) -> str | None:
        """What the run lacks."""
        costs = diagnosis.scenario.costs if diagnosis.scenario is not None else ()
        seen = not diagnosis.host.accelerated and any(cost.python > 0 for cost in costs)
        return None if seen else super().__call__(diagnosis)


HIDDEN = PythonOrProfile(
    "what Python does while a GPU computes is hidden: the report lists hot functions, unpriced"
)


@finding("host.python", VECTORISE, SELDOM, CHEAPER, needs=(HIDDEN,))
def host_python_hot(diagnosis: Diagnosis) -> Finding | None:
    """Fires when Python between operators takes a visible part of the step."""
    scenario, hot = given(diagnosis.scenario), hottest(diagnosis)
    python = fmean(cost.python for cost in scenario.costs)
    share = 1 - 1 / gain(scenario, Change(python=0))
    if share < NOTICED or (hot is not None and hot.purpose.what == LOG):
        return None  # logging-blocking reports it
    evidence = [
        Evidence("share of the step in Python between operators", "python_share", share, PROFILER),
        Evidence("time per step in Python between operators", "python_s", python, PROFILER),
    ]
    ends = epoch_ends(diagnosis.profile, diagnosis.loop).share
    if ends >= NOTICED:
        evidence.append(Evidence("share of the time that passes between epochs", "between_share", ends, ENDS))
    if hot is None:
        return Finding("host-python-hot", "host.python", evidence)
    text = f"share of the loop's samples seen in {hot.line.function}"
    evidence.append(Evidence(text, "hottest_share", hot.share, STACKS))
    if hot.purpose.what in SEEN:
        evidence.append(Evidence(SEEN[hot.purpose.what]))
    if hot.purpose.repeats:
        evidence.append(Evidence("it runs in a loop within the step"))
    return Finding("host-python-hot", "host.python", evidence, _proposals(diagnosis, scenario, hot), hot.line)


def hottest(diagnosis: Diagnosis) -> Hot | None:
    """The user's function with most samples outside of torch, and its hottest line."""
    loop = diagnosis.loop
    stacks = [one.stack for one in attribute(diagnosis.profile, loop).own]
    stacks += stacks_between(diagnosis.profile, loop)
    below: dict[tuple[str, str], list[tuple[Location, Stack]]] = {}
    for stack in stacks:
        mine = users_path(stack.frames)
        if mine and not is_library(stack.frames[-1]):
            below.setdefault((mine[-1].file, mine[-1].function), []).append((mine[-1], stack))
    if not below:
        return None
    most = max(below.values(), key=lambda seen: sum(stack.count for _, stack in seen))
    lines: Counter[Location] = Counter()
    for line, stack in most:
        lines[line] += stack.count
    purpose = purpose_of(diagnosis.profile.sources, [stack for _, stack in most])
    if purpose.caller is None:  # a library's loop called it
        looped = sum(stack.count for _, stack in most if _is_looped(diagnosis, stack))
        purpose = replace(purpose, repeats=looped >= MOST * sum(stack.count for _, stack in most))
    total, seen = sum(stack.count for stack in stacks), sum(lines.values())
    if seen < NOTICED * total:
        return None
    return Hot(lines.most_common(1)[0][0], seen, total, purpose)


def _is_looped(diagnosis: Diagnosis, stack: Stack) -> bool:
    """Whether a line runs in a loop of the user's, in or below the function that a library called."""
    users = [place is not None and is_users(place.file) for place in map(parse_frame, stack.frames)]
    last = max((depth for depth, mine in enumerate(users) if mine), default=-1)
    first = next((depth for depth in range(last, 0, -1) if not users[depth - 1]), 0)
    places = [parse_frame(frame) for frame in stack.frames[first : last + 1]] if first else []
    known = [(code.source_at(diagnosis.profile.sources, place), place.line) for place in places if place]
    return any(source is not None and code.is_repeated(source, line) for source, line in known)


def _proposals(diagnosis: Diagnosis, scenario: Scenario, hot: Hot) -> list[Proposal]:
    """Remedies that the source proves to apply: the line runs in a loop, or only computes a metric. Without
    such a proof, the place alone."""
    loop = diagnosis.loop
    allowed = witnessed(diagnosis.profile, loop) if loop is not None else 1.0
    mine = min(1.0, hot.share / max(allowed, 1e-9))  # of the Python
    measure = hot.purpose.what == MEASURE
    changes = each(python=left_of(mine, MOSTLY))
    proposals = []
    if hot.purpose.repeats:
        snippet = COUNTED if measure else ARRAYS
        text = f"replace the loop in {hot.line.function} by operators on all elements"
        proposals.append(priced(VECTORISE.at(hot.line, snippet, text), scenario, *changes))
    if measure:
        metric = quoted(diagnosis, hot.purpose.caller) or METRIC
        seldom = SELDOM.at(hot.purpose.caller, rarely(EVERY_TENTH, metric))
        proposals.append(priced(seldom, scenario, *changes))
    if not proposals:
        text = f"spend less time in {hot.line.function}"
        cheaper = replace(CHEAPER.at(hot.line, text=text), title=text)
        partly = each(python=left_of(mine, PARTLY))
        proposals = [priced(cheaper, scenario, *partly, most=Change(python=1 - mine))]
    return [capped(one, hot.share) for one in proposals]


# gc-pauses
EVERY = 1000  # steps (an example; the user chooses)
SPACED = 0.1  # of the collections are left (assumed; the user chooses)
HOOK = "gc.callbacks"
FREEZE = Proposal(
    id="gc-freeze",
    title="take what lives forever out of the collector's sight",
    fix=Fix("before the loop", "import gc; gc.collect(); gc.freeze()  # once data and model are built"),
    apply="hook",
    risk="objects built before the freeze are never collected, if they form cycles",
    treatments=(Treatment("collector"),),
)
SPACE = Proposal(
    id="gc-interval",
    title="collect at chosen steps only",
    fix=Fix(
        "switch automatic collection off, and collect now and then",
        "import gc; gc.disable()  # before the loop\n"
        f"if STEP % {EVERY} == 0:  # in it; on all ranks at the same step\n"
        "    gc.collect(1)",
    ),
    change=Change(collect=SPACED),
    apply="hook",
    risk="memory grows between two collections where steps leave cycles behind",
    treatments=(Treatment("collector", {"every": EVERY}),),
)


@finding("host.gc", FREEZE, SPACE, needs=(loader_loop,))
def gc_pauses(diagnosis: Diagnosis) -> Finding | None:
    """Fires when collections take a noticeable part of the steady step."""
    share = step_share(diagnosis, "collect")
    if share <= TRIFLE:
        return None
    pauses = [one for one in operations_of(diagnosis, "collection") if one.name in ("full", "young")]
    total_s = sum(one.total_s for one in pauses)
    full = sum(one.total_s for one in pauses if one.name == "full") / total_s if total_s > 0 else 1.0
    evidence = [Evidence("share of the step spent collecting garbage", "collect_share", share, HOOK)]
    if pauses:
        count, longest = sum(one.count for one in pauses), max(one.max_s for one in pauses)
        evidence += [
            Evidence("collections of 0.2 ms and more, whole run", "collections", float(count), HOOK),
            Evidence("the longest of them", "collection_max_s", longest, HOOK),
            Evidence("share of their time in full ones, which visit every object", "full_share", full, HOOK),
        ]
    place = diagnosis.loader.location if diagnosis.loader is not None else None
    freeze = replace(FREEZE.at(place), change=Change(collect=1 - full))
    return Finding("gc-pauses", "host.gc", evidence, [freeze, SPACE.at(place)], place)


# gil-contention
PROCESS = Proposal(
    id="processes-not-threads",
    title="let that thread's work be done by a process, or less often",
    fix=Fix("move the thread's work into a process of its own", snippet("host_loop", "SPAWN")),
    effort="hours",
    risk="what the thread shares with the loop must be sent to and fro",
    basis="bound",
)


@finding("host.python", PROCESS, needs=(loader_loop,))
def gil_contention(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the loop's thread waits for a lock while another thread of its process runs."""
    scenario = given(diagnosis.scenario)
    seen = lock_wait(diagnosis.profile, diagnosis.loop)
    if seen is None:
        return "stack samples that show which threads ran (py-spy)"
    if seen.share < NOTICED:
        return None
    cause = "input.preprocess" if scenario.feeders.count else "host.python"
    if scenario.feeders.count:  # the replay counts it as time to make batches
        factor = (1.0, 1 / (1 - seen.share / 2), 1 / (1 - seen.share))
    else:
        factor = spread(scenario, *each(python=WHOLLY))
    where = f", mostly in {named(seen.location)}" if seen.location else ""
    text = f"share of the time that other threads ran{where}"
    evidence = [
        Evidence("share of the loop's samples that wait for a lock", "lock_wait_share", seen.share, STACKS),
        Evidence(text, "other_threads_share", seen.others, STACKS),
    ]
    most = max(factor[2], gain(scenario, Change(python=0.0, launch=0.0)))
    proposal = replace(PROCESS.at(seen.location), factor=factor, most=most)
    return Finding("gil-contention", cause, evidence, [proposal], seen.location)


# debug-mode-on
TRACEBACK_S = 3e-5  # for each gradient that is checked (measured: 27 and 33 µs)
CHECKS = ("any", "ne", "isnan", "_is_any_true", "item")
DROPPED = ("anomaly", "tracer")  # what a trial can do without
BLOCKING = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING")
SLOWED = ("host.sync", "host.launch", "device.compute", "device.underfilled")  # on an accelerator
PROFILED = (1.0, 1.06, 1.14)  # a profiler (measured: 6 %, with stacks and shapes 14 %), or a trace function
GUESSED = (1.0, 1.5, 5.0)  # anomaly detection in a step that was not profiled (measured)
SWITCH_OFF = Proposal(
    id="drop-debug",
    title="switch debugging aids off",
    fix=Fix("once the bug is found", "torch.autograd.set_detect_anomaly(False)  # and no detect_anomaly()"),
    apply="hook",
    risk="what it would have caught goes unseen",
    basis="bound",
    treatments=(Treatment("debug", {"drop": "anomaly"}),),
)


@finding("host.python", SWITCH_OFF, needs=(loader_loop,))
def debug_mode_on(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when a debugging switch that slows down every step is on."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None:
        return "what the script has set"
    on = _switched_on(diagnosis, known)
    if not on:
        return None
    dropped, text, how = on[0]
    checks = sum(one.calls for one in operators(diagnosis, lambda name: name == "any"))
    evidence = [Evidence(f"{switch} is on", name, 1.0, SETTINGS) for name, switch, _ in on]
    if checks:
        evidence.append(Evidence("searches for NaN in a step", "nan_checks", checks, PROFILER))
    anomaly, tried = dropped == "anomaly", dropped in DROPPED
    factor = _without_checks(diagnosis, scenario, checks) if anomaly else PROFILED
    most = gain(scenario, spared(scenario, own_s(scenario)))
    if diagnosis.host.accelerated:
        factor, most = _beside_device(diagnosis, dropped)
        if most < WORTH:
            return None
    proposal = replace(
        SWITCH_OFF.at(None, how),
        title=f"switch {text} off",
        factor=factor,
        most=most,
        apply=SWITCH_OFF.apply if tried else "manual",
        treatments=(Treatment("debug", {"drop": dropped}),) if tried else (),
    )
    cause = "model.compute" if anomaly else "host.python"
    if diagnosis.host.accelerated:  # whatever of the step it slows down
        cause = diagnosis.verdict.cause if diagnosis.verdict.cause in SLOWED else "host.launch"
    return Finding("debug-mode-on", cause, evidence, [proposal])


def _switched_on(diagnosis: Diagnosis, known: ScriptSettings) -> list[tuple[str, str, str]]:
    """(id, what it is called, how to switch it off) of each switch that is on, the dearest first."""
    traced, accelerated = known.tracer or known.profiler, diagnosis.host.accelerated
    waits = next((name for name in BLOCKING if known.environment.get(name, "0") not in ("", "0")), "")
    every = (
        (known.anomaly or "anomaly" in known.noticed, "anomaly", "anomaly detection", SWITCH_OFF.fix.snippet),
        (accelerated and waits, "launch_blocking", f"{waits} (each launch waits for its kernel)",
         f"{waits}=0 python train.py"),
        ("profiler" in known.noticed, "profiler", "a profiler of operators", "# give it a schedule"),
        (traced, "tracer", f"a trace function ({traced})", "# run without coverage or a debugger"),
        (known.development_mode, "development_mode", "Python's development mode", "# without -X dev"),
        (known.deterministic and _settled_share(diagnosis) >= NOTICED, "deterministic",
         "the choice of deterministic algorithms", snippet("host_loop", "NOT_SETTLED")),
    )  # fmt: skip
    return [one[1:] for one in every if one[0]]


def _settled_share(diagnosis: Diagnosis) -> float:
    """Share of a device's time in kernels that deterministic algorithms may slow: convolutions, indexing,
    memory that is filled before it is used."""
    view = device_of(diagnosis)
    filled = share_of(diagnosis, lambda name: name == "fill_")
    return 0.0 if view is None else kernel_share(view, ("convolution", "indexing")) + filled


def _beside_device(diagnosis: Diagnosis, dropped: str) -> tuple[Factor, float]:
    """Speedups without the switch, and at most, where an accelerator computes: it costs the loop's time and
    makes it wait, of which the step has only what the device is not busy in."""
    scenario, view, least = given(diagnosis.scenario), device_of(diagnosis), 1 - MOST_SPARED
    checked = share_of(diagnosis, lambda name: name in CHECKS)
    free = Change(launch=least, idle=least, lead_in=0.0, ahead=1.0, device=1 - checked)
    low, likely, high = GUESSED if dropped in ("anomaly", "launch_blocking") else PROFILED
    if dropped == "launch_blocking":
        if view is not None and view.beat is not None:
            return _unblocked(scenario, view.beat)
        free = replace(free, launch=MOST, idle=MOST, device=MOST)  # two took turns
    if dropped == "deterministic":
        share = _settled_share(diagnosis)
        free = Change(device=1 - share)
        low, likely, high = spread(scenario, *each(device=left_of(share, PARTLY)))
    most = gain(scenario, free)
    return (min(low, most), min(likely, most), min(high, most)), most


def _unblocked(scenario: Scenario, beat: DeviceWindow) -> tuple[Factor, float]:
    """Where each launch waits for its kernel, the device idles while the loop works: they take turns. Without
    it they run side by side."""
    sides = {"launch": 0.0, "lead_in": beat.launch_s}, {"launch": beat.launch_s, "lead_in": 0.0}
    steps = []
    for ahead, side in enumerate(sides):
        costs = tuple(replace(one, **side) for one in scenario.costs)
        steps.append(step_seconds(replace(scenario, costs=costs, ahead=float(ahead))))
    gained = max(1.0, steps[0] / max(steps[1], 1e-12))
    return (1.0, gained, gained), gained


def _without_checks(diagnosis: Diagnosis, scenario: Scenario, checks: float) -> Factor:
    """The speedup without anomaly detection, from its checks in the profiled step."""
    if not checks:
        return GUESSED
    checking_s = share_of(diagnosis, lambda name: name in CHECKS) * own_s(scenario)
    seconds = checking_s + TRACEBACK_S * checks
    return spread(scenario, *(spared(scenario, (1 - left) * seconds) for left in WHOLLY))


# recompile-churn
FRAMES = 3  # compiled in the steady window (chosen)
COUNTERS = "torch._dynamo counters"
DYNAMIC = Proposal(
    id="compile-dynamic",
    title="compile once for all shapes",
    fix=Fix("where the model is compiled", snippet("host_loop", "ONE_CODE")),
    apply="hook~",
    risk="code for changing shapes is a little slower than code for one",
    basis="amdahl",
    treatments=(Treatment("dynamic"),),
)
STEADY_GUARD = Proposal(
    id="steady-guards",
    title="keep what compiled code depends on from changing",
    fix=Fix("where it is called", GUARDS[-1].snippet),
    risk="check that the numbers stay the same",
    basis="amdahl",
)


@finding("host.python", DYNAMIC, STEADY_GUARD, needs=(loader_loop,))
def recompile_churn(diagnosis: Diagnosis) -> Finding | None:
    """Fires when the steady part of the run keeps compiling."""
    scenario, steps, pid = given(diagnosis.scenario), diagnosis.steps, given(diagnosis.loop).pid
    mine = next((one for one in diagnosis.profile.computing.compilations if one.pid == pid), None)
    if not steps or mine is None:
        return None
    before = [place for place, t in enumerate(mine.t) if t < steps[0].t - steps[0].wall]
    until = [place for place, t in enumerate(mine.t) if t <= steps[-1].t]
    if not before:
        return None  # without an earlier reading, this may be the first compilation
    frames, breaks, seconds, recorded = (
        (column[until[-1]] or 0) - (column[before[-1]] or 0) if column else 0
        for column in (mine.frames, mine.breaks, mine.seconds, mine.recorded)
    )
    share = seconds / max(seconds_in(steps), 1e-12)
    if frames < FRAMES or share < TRIFLE:
        return None
    evidence = [
        Evidence("frames compiled in the steady window", "compiled_frames", float(frames), COUNTERS),
        Evidence("share of its time spent compiling", "compiling_share", share, COUNTERS),
        Evidence("graph breaks in the steady window", "graph_breaks", float(breaks), COUNTERS),
    ]
    if recorded:
        text = "CUDA graphs recorded in the steady window"
        evidence.append(Evidence(text, "recorded_graphs", float(recorded), "hook on captures"))
    guards = compiler_notes(diagnosis, "recompilation")
    evidence[1:1] = map(noted, guards)
    evidence += map(noted, compiler_notes(diagnosis, "graph break"))
    remedy, place = DYNAMIC, guards[0].location if guards else None
    advice = advised(GUARDS, guards[0].reason) if guards else GUARDS[0]
    if advice is not GUARDS[0]:
        remedy = STEADY_GUARD.at(place, advice.snippet, advice.text)
    gone = [(1 - left) * seconds / steps_in(steps) for left in MOSTLY]
    if diagnosis.host.accelerated:  # the loop stands still: at best, all that is left are its batches
        most = gain(scenario, Change(launch=0, idle=0, lead_in=0, device=0, copying=0, allocating=0))
        low, likely, high = (min(most, 1 / max(1e-3, 1 - one / max(diagnosis.step_s, 1e-12))) for one in gone)
        if likely < WORTH:
            return None
        proposal = replace(remedy, factor=(low, likely, high))
    else:
        proposal = priced(remedy, scenario, *(spared(scenario, one) for one in gone))
    cause = "host.launch" if diagnosis.host.accelerated else "host.python"
    return Finding("recompile-churn", cause, evidence, [proposal], place)
