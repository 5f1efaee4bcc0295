"""Analyses a trace of some steps on an accelerator: kernels, idle gaps by cause, shapes, operators.

Not yet proven on a device of the project; checked against published traces of A100, V100 and MI250.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ..agent import wire
from ..model.device import Convolution, DeviceWindow, Kernels, Product
from ..model.instruments import Operator
from .device_idle import HostTrace, Idle, computes, is_collective, read_host, share_out, waiting
from .kernels import (
    TENSOR_KINDS,
    Timed,
    kind_of,
    precision_of,
    read_convolutions,
    read_products,
    types_of,
    uses_tensor_cores,
)
from .stretches import Stretch, gaps, joined, length, shared
from .trace_file import DeviceTimeline, DeviceWork, Range, read_timeline

OURS = "bdoc#"


def read_operators(
    timeline: DeviceTimeline, begin: float, end: float, steps: int, kernels: list[Kernel]
) -> list[Operator]:
    """Means per step of operators that begin in [begin, end), those of the most device time first. An
    operator's own time on the host is what no range inside of it took. A kernel that none launched, as in a
    graph, stands by its own name."""
    device_us: dict[str, float] = {}  # by the operator that launched the kernels
    alone: Counter[str] = Counter()
    for kernel in kernels:
        name = kernel.operator.name if kernel.operator is not None else short_name(kernel.work.name)
        device_us[name] = device_us.get(name, 0.0) + kernel.us
        alone[name] += kernel.operator is None
    calls: Counter[str] = Counter()
    own: dict[str, float] = {}
    stacks: dict[str, list[Range]] = {}  # by thread
    for one in timeline.ranges:
        if begin <= one.begin < end:
            stack = stacks.setdefault(one.thread, [])
            while stack and stack[-1].end <= one.begin:
                stack.pop()
            taken = one.end - one.begin
            calls[one.name] += 1
            own[one.name] = own.get(one.name, 0.0) + taken
            if stack:
                own[stack[-1].name] -= min(taken, stack[-1].end - one.begin)
            stack.append(one)
    found = [
        Operator(name, calls[name] / steps, taken * US / steps, device_us.get(name, 0.0) * US / steps)
        for name, taken in own.items()
        if not name.startswith(OURS)
    ]
    found += [
        Operator(name, count / steps, 0.0, device_us[name] * US / steps)
        for name, count in alone.items()
        if count and name not in own
    ]
    found.sort(key=lambda one: (-one.self_device_s, -one.self_cpu_s))
    most, rest = found[: wire.OPERATORS_AT_MOST], found[wire.OPERATORS_AT_MOST :]
    return most + [one for one in rest if any(known in one.name for known in wire.TELLING)][:4]


NODE = "autograd::engine::evaluate_function"
COMPILED = ("Torch-Compiled Region", "CompiledFunction")  # what is repeated in there bears no names


def repeated_us(
    timeline: DeviceTimeline, host: HostTrace, work: list[DeviceWork], thread: str
) -> float | None:
    """Microseconds of this work that repeat operators of the loop's thread; None where names are missing."""
    if any(one.name.startswith(COMPILED) for one in timeline.ranges):
        return None
    passes: dict[str, list[Stretch]] = {}
    # By thread: operators of forward passes that torch recorded; nodes name the thread of theirs.
    recorded: dict[str, list[tuple[Stretch, tuple[str, str]]]] = {}
    for one in timeline.ranges:
        span = one.begin, one.end
        if one.name.startswith(NODE):
            passes.setdefault(one.thread, []).append(span)
        elif "Sequence number" in one.given and not one.given.get("Fwd thread id") and "::" in one.name:
            likeness = one.name, str(one.given.get("Input Dims"))
            recorded.setdefault(one.thread, []).append((span, likeness))
    forward = {likeness for _, likeness in recorded.get(thread, [])}
    inside: dict[str, list[Stretch]] = {}
    for name, mine in passes.items():
        again = joined(span for span, likeness in recorded.get(name, []) if likeness in forward)
        whole = joined(mine)
        inside[name] = [part for begin, end in again for part in shared(whole, begin, end)]
    repeated = 0.0
    for done in work:
        call = host.launched.get(done.correlation)
        if call is not None and shared(inside.get(call.thread, []), call.begin, call.end):
            repeated += done.end - done.begin
    return repeated


SOUND = 0.5  # of the kernels' time must say how many blocks it has, for the share of multiprocessors (chosen)
US = 1e-6


@dataclass(frozen=True)
class TraceTable:
    """What one trace says. ``idle_by_site``: seconds per step of idleness after waits, by the hook's site;
    site 0 = waits that no hook saw. Calls and seconds are means per step."""

    window: DeviceWindow
    kernels: list[Kernels] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    idle_by_site: dict[int, float] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    convolutions: list[Convolution] = field(default_factory=list)
    recompute_s: float | None = None


@dataclass(frozen=True)
class Kernel:
    """One kernel, or copy within the device, and what is known of it."""

    work: DeviceWork
    kind: str
    precision: str
    cores: bool | None
    operator: Range | None
    phase: str  # forward, backward or optimizer: during which the loop launched it

    @property
    def us(self) -> float:
        """Its time."""
        return self.work.end - self.work.begin


def read_window(source: Path | str) -> TraceTable | None:
    """The trace in a file (``Path``) or a text; None where it holds no two whole steps on a device."""
    timeline = read_timeline(source)
    steps = find_steps(timeline) if timeline is not None else None
    if timeline is None or steps is None:
        return None
    backward = {one.thread for one in timeline.ranges if one.name.startswith(NODE)}
    host = read_host(timeline, {steps.thread} | backward)
    # When the host launched each piece of work. If the trace lacks the launch, that of the work before it is
    # taken; the first pieces were launched before the trace began, by a loop far ahead of the device.
    issued, latest = [], -math.inf
    for work in timeline.work:
        call = host.launched.get(work.correlation)
        latest = call.begin if call is not None else latest
        issued.append(latest)
    mine = [one for one, t in zip(timeline.work, issued, strict=True) if steps.begin <= t < steps.end]
    computing = [(one, t) for one, t in zip(timeline.work, issued, strict=True) if computes(one)]
    begin, end = (  # when the device had finished all that was issued before the steps' begin, and their end
        max((one.end for one, t in computing if t < instant), default=instant)
        for instant in (steps.begin, steps.end)
    )
    if not mine or end <= begin:
        return None
    kernels = [
        one for one in _kernels(timeline, mine, steps) if one.work.sort != "memcpy" or computes(one.work)
    ]
    busy = joined((one.begin, one.end) for one, _ in computing)
    idle = share_out(timeline, host, busy, begin, end)
    exchanges = joined((one.begin, one.end) for one in timeline.work if is_collective(one))
    exchanged = length(shared(exchanges, begin, end))
    timed = _timed(kernels)
    repeated = repeated_us(timeline, host, mine, steps.thread)
    return TraceTable(
        window=_window(steps, kernels, idle, host, busy, (begin, end), exchanged),
        kernels=_groups(kernels, steps.count),
        products=read_products(timed, steps.count),
        idle_by_site={site: taken * US / steps.count for site, taken in idle.by_site.items()},
        operators=read_operators(timeline, steps.begin, steps.end, steps.count, kernels),
        convolutions=read_convolutions(timed, steps.count),
        recompute_s=None if repeated is None else repeated * US / steps.count,
    )


def _kernels(timeline: DeviceTimeline, mine: list[DeviceWork], steps: Steps) -> list[Kernel]:
    operators = {one.number: one for one in timeline.ranges if one.number}
    updates = joined(
        (one.begin, one.end) for one in timeline.ranges if one.name.startswith("Optimizer.step#")
    )
    nodes: dict[str, list[Stretch]] = {}
    for one in timeline.ranges:
        if one.name.startswith(NODE):
            nodes.setdefault(one.thread, []).append((one.begin, one.end))
    passes = {thread: joined(mine) for thread, mine in nodes.items()}
    calls = {one.correlation: one for one in timeline.calls if one.correlation}
    found = []
    for work in mine:
        operator, call = operators.get(work.operator), calls.get(work.correlation)
        issued, thread = (call.begin, call.thread) if call is not None else (-1.0, "")
        updating = bool(shared(updates, issued, issued + 1e-3))
        backward = bool(shared(passes.get(thread, []), issued, issued + 1e-3))
        kind = kind_of(work.name, operator.name if operator else "", updating)
        kind = kind if work.sort == "kernel" else "copy"
        precision = precision_of(work.name, kind, types_of(operator))
        cores = uses_tensor_cores(work.name, kind, precision)
        phase = "optimizer" if updating else "backward" if backward else "forward"
        found.append(Kernel(work, kind, precision, cores, operator, phase))
    return found


def _groups(kernels: list[Kernel], steps: int) -> list[Kernels]:
    """Kernels by kind and precision, costliest first."""
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for one in kernels:
        groups.setdefault((one.kind, one.precision), []).append(one)
    found = [
        Kernels(
            kind, sum(one.us for one in mine) * US / steps, len(mine) / steps,
            median(one.us for one in mine) * US, precision,
            _tensor_core_share(mine) if kind in TENSOR_KINDS else None,
        )
        for (kind, precision), mine in groups.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: -one.device_s)


def _tensor_core_share(kernels: list[Kernel]) -> float | None:
    """Share of their time on tensor cores; None where the names of most do not show it."""
    whole = sum(one.us for one in kernels)
    known = sum(one.us for one in kernels if one.cores is not None)
    return sum(one.us for one in kernels if one.cores) / known if known > SOUND * whole else None


def _window(
    steps: Steps,
    kernels: list[Kernel],
    idle: Idle,
    host: HostTrace,
    busy: list[Stretch],
    edges: Stretch,
    exchanged_us: float,
) -> DeviceWindow:
    own = [one for one in kernels if not is_collective(one.work)]
    each = US / steps.count
    busy_us = length(shared(busy, *edges)) + idle.parts.get("own", 0.0)
    phases = dict.fromkeys(PHASES, 0.0)
    for one in own:
        phases[f"{one.phase}_s"] += one.us
    whole = sum(phases.values())
    parts = {f"{name}_s": taken * each for name, taken in idle.parts.items() if name != "own"}
    issuing = gaps(waiting(host, busy), steps.begin, steps.end)
    return DeviceWindow(
        steps=steps.count,
        wall_s=(edges[1] - edges[0]) * each,
        busy_s=busy_us * each,
        host_s=length(issuing) * each,
        kernels_per_step=len(kernels) / steps.count,
        tensor_core_share=_tensor_core_share(own),
        sm_active_share=_active(own),
        communication_s=exchanged_us * each,
        **{name: busy_us * each * taken / whole for name, taken in phases.items() if whole},
        **parts,
    )


PHASES = ("forward_s", "backward_s", "optimizer_s")  # of DeviceWindow


def short_name(kernel: str) -> str:
    """A kernel's name without the arguments of its template."""
    plain = kernel.replace("(anonymous namespace)::", "").removeprefix("void ")
    return plain.partition("<")[0].partition("(")[0]


def _active(kernels: list[Kernel]) -> float | None:
    """The share of multiprocessors that kernels have blocks for, by time; a bound from above."""
    known = [one for one in kernels if one.work.blocks is not None]
    whole = sum(one.us for one in known)
    if whole <= SOUND * sum(one.us for one in kernels):
        return None
    return sum(one.us * min(1.0, one.work.blocks or 0.0) for one in known) / whole


def _timed(kernels: list[Kernel]) -> list[Timed]:
    """Operators with the time of their products: the kernel of the most time says in which precision."""
    groups: dict[int, list[Kernel]] = {}
    for one in kernels:
        if one.operator is not None and one.kind in TENSOR_KINDS:
            groups.setdefault(one.operator.number, []).append(one)
    return [
        Timed(mine[0].operator, max(mine, key=lambda one: one.us).precision, sum(one.us for one in mine))
        for mine in groups.values()
        if mine[0].operator is not None
    ]


STEP = re.compile(r"bdoc#step#(\d+)")
MATCHED = 0.95  # of a step's launches must have left their kernel, or the trace ends inside of it (chosen)
EARLY_US = 50  # a kernel that begins so long before its launch was timed by another clock (chosen)
EARLY_AT_MOST = 0.01  # of the launches: single instants are wrong in every trace (chosen)


@dataclass(frozen=True)
class Steps:
    """Whole steps of one loop, on the host's side: it runs in ``thread``, from ``begin`` to ``end``."""

    count: int
    thread: str
    begin: float
    end: float


def find_steps(timeline: DeviceTimeline) -> Steps | None:
    """The steps between the second mark and the last one whose launches left their kernels: where the device
    stands at the first, nothing says."""
    marks = [one for one in timeline.ranges if STEP.match(one.name)]
    loops = Counter((one.thread, one.name) for one in marks)
    marks = [one for one in marks if (one.thread, one.name) == loops.most_common(1)[0][0]]
    launches = read_launches(timeline)
    early = sum(one.kernel < one.begin - EARLY_US for one in launches if one.kernel is not None)
    if early > EARLY_AT_MOST * len(launches):
        return None  # after idling, the tracer's device clock may drift from the host's (pytorch #192021)
    begins = [one.begin for one in launches]
    edges = [bisect_left(begins, one.begin) for one in marks]
    # At an epoch's end the loop asks twice, and launches nothing in between.
    kept = [place for place, edge in enumerate(edges) if not place or edge > edges[place - 1]]
    marks, edges = [marks[place] for place in kept], [edges[place] for place in kept]
    begin, longest = 1, (1, 1)
    for place in range(1, len(marks) - 1):
        if not _is_whole(launches[edges[place] : edges[place + 1]]):
            begin = place + 2  # one more, which says where the device then stands
        elif place + 1 - begin > longest[1] - longest[0]:
            longest = begin, place + 1
    first, last = longest
    if last == first:
        return None
    return Steps(last - first, marks[0].thread, marks[first].begin, marks[last].begin)


class Launch(NamedTuple):
    """A call that launches a kernel, and when that began; None where the trace does not hold it."""

    begin: float
    kernel: float | None


def read_launches(timeline: DeviceTimeline) -> list[Launch]:
    """Launches in order. Nested ones, such as the driver's call inside the runtime's, count as one: the
    kernel carries the correlation id of either."""
    kernels = {one.correlation: one.begin for one in timeline.work if one.correlation}
    found: list[Launch] = []
    outer: dict[str, tuple[int, float]] = {}  # by thread: the place of the last launch, and its end
    for one in timeline.calls:
        if "Launch" not in one.name or "HostFunc" in one.name or not one.correlation:
            continue
        kernel = kernels.get(one.correlation)
        place, end = outer.get(one.thread, (0, -math.inf))
        if one.begin < end:
            if found[place].kernel is None:
                found[place] = found[place]._replace(kernel=kernel)
            continue
        outer[one.thread] = len(found), one.end
        found.append(Launch(one.begin, kernel))
    return found


def _is_whole(launches: list[Launch]) -> bool:
    """Whether a step's kernels are there. Where few are launched, one may be missing, but not the last."""
    missing = sum(one.kernel is None for one in launches)
    few = missing == 1 and launches[-1].kernel is not None
    return few or missing <= (1 - MATCHED) * len(launches)
