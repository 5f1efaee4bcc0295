"""Compares runs: the conditions that fail a gate, what moved beyond the noise of both, whether losses differ.

A condition is written ``METRIC OP VALUE`` and names a state that fails; nonsense is refused.
"""

from __future__ import annotations

import difflib
import itertools
import math
import operator as op
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ..model.errors import UsageError
from ..model.proof import Parity
from ..model.report import Comparison, Condition, Difference, Metric, Move, Report
from ..model.run import Losses, Trial

METRIC_NAMES = tuple(
    "data_wait_fraction exposed_data_wait_fraction batch_release_fraction step_time_s steps_per_s "
    "samples_per_s cpu_busy_fraction iowait_fraction gpu_busy_fraction gpu_memory_fraction mfu cores_per_gpu "
    "worker_busy_fraction startup_s evaluation_fraction evaluation_data_wait_fraction evaluation_step_time_s "
    "checkpoint_fraction".split()
)
OPERATORS = {"<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge, "==": op.eq, "!=": op.ne}
SHAPE = re.compile(r"\s*([A-Za-z_]\w*)\s*([<>=!~]+)\s*(\S+)\s*", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MEANT = {"=": "==", "=>": ">=", "=<": "<=", "<>": "!=", "===": "==", "!": "!="}
EXAMPLE = "for example 'data_wait_fraction > 0.2'"
# Longer than any sensible condition; keeps error lines short.
LONGEST = 200


def parse_condition(text: str, known: Collection[str] = METRIC_NAMES, origin: str = "--fail-if") -> Condition:
    """The failing state that ``text`` names; ``known`` are the metrics that it may use."""
    found = SHAPE.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise UsageError(f"{origin} {_shown(text)} is not METRIC OP VALUE: write it like {EXAMPLE}")
    metric, sign, number = found.groups()
    if sign not in OPERATORS:
        hint = f"did you mean {MEANT[sign]}" if sign in MEANT else f"use one of {' '.join(OPERATORS)}"
        raise UsageError(f"{origin} {_shown(text)}: no operator {sign}, {hint}")
    if metric not in known:
        near = difflib.get_close_matches(metric, known, n=1, cutoff=0.5)
        inside = [name for name in known if metric.strip("_") and metric.lower().strip("_") in name]
        guess = near or inside[:1]
        hint = f"did you mean {guess[0]}" if guess else f"known are {', '.join(sorted(known))}"
        raise UsageError(f"{origin}: no metric {_shown(metric)}, {hint}")
    threshold = _number(number, is_fraction(metric), f"{origin} {_shown(text)}")
    condition = Condition(metric, sign, threshold, origin)
    if not any(holds(value, condition) for value in _candidates(metric, [condition])):
        raise UsageError(f"{origin} {_shown(text)} can never be true of {metric}, so it would always pass")
    return condition


def data_wait_condition(limits: Iterable[str], origin: str = "--max-data-wait") -> list[Condition]:
    """``--max-data-wait``: the strictest of what was given, as a condition."""
    fractions = [parse_fraction(limit, origin) for limit in limits]
    return [Condition("data_wait_fraction", ">", min(fractions), origin)] if fractions else []


def parse_fraction(text: str, origin: str) -> float:
    """A number from 0 to 1; ``origin`` is the option that it was given to."""
    return _number(text, True, f"{origin} {_shown(text)}")


def refuse_contradictions(conditions: Iterable[Condition]) -> None:
    """Refuse conditions that no value of their metric can satisfy: such a gate would only ever fail."""
    by_metric: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_metric.setdefault(condition.metric, []).append(condition)
    for metric, together in by_metric.items():
        if all(any(holds(value, one) for one in together) for value in _candidates(metric, together)):
            named = " and ".join(f"{c.origin} '{c.metric} {c.op} {c.threshold:g}'" for c in together)
            raise UsageError(f"{named} would fail whatever {metric} is: drop or reverse one of them")


def is_fraction(metric: str) -> bool:
    """Whether the metric runs from 0 to 1; every metric is at least 0."""
    return metric.endswith(("_fraction", "_share"))


def holds(value: float, condition: Condition) -> bool:
    """Whether the failing state is true of this value."""
    return bool(OPERATORS[condition.op](value, condition.threshold))


def _number(text: str, fraction: bool, where: str) -> float:
    expected = "a number from 0 to 1" if fraction else "a number of at least 0"
    if text.endswith("%") and NUMBER.fullmatch(text[:-1]):
        raise UsageError(f"{where}: expected {expected}, write {float(text[:-1]) / 100:g} for {text}")
    if NUMBER.fullmatch(text) is None:
        what = where if where.endswith(_shown(text)) else f"{where}: {_shown(text)}"
        raise UsageError(f"{what} is not {expected}")
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{where}: expected {expected}")
    if fraction and value > 1:
        hint = f", write {value / 100:g} for {value:g} %" if value <= 100 else ""
        raise UsageError(f"{where}: expected {expected}{hint}")
    return value


def _candidates(metric: str, conditions: list[Condition]) -> list[float]:
    """The thresholds and one value between each two: what is true of none of these is never true."""
    top = 1.0 if is_fraction(metric) else max(condition.threshold for condition in conditions) * 2 + 1
    edges = sorted({0.0, top, *(condition.threshold for condition in conditions)})
    return edges + [(low + high) / 2 for low, high in itertools.pairwise(edges)]


def _shown(text: str) -> str:
    cut = text if len(text) <= LONGEST // 2 else text[: LONGEST // 2] + "..."
    return f"'{cut if cut.isprintable() else cut.encode('unicode_escape').decode()}'"


Fact = str | float | None
# With more than this many times the steps, caches, clocks and schedules differ: it is another job.
STEPS_APART = 4
# The mean of samples per batch varies with each epoch's last, short batch.
SAME_BATCH = 0.02


def _script(report: Report) -> Fact:
    """Relative to the start folder, since checkouts lie in different ones. Modules and launchers by name."""
    script, command, home = report.run.script, report.run.command, report.run.cwd.rstrip("/") + "/"
    if script:
        return script[len(home) :] if report.run.cwd and script.startswith(home) else script
    return (
        " ".join(command[1:3]) if command[1:2] == ["-m"] else "".join(command[:1]).rpartition("/")[2] or None
    )


def _arguments(report: Report) -> Fact:
    command, script = report.run.command, report.run.script
    before = command.index(script) if script in command else 2 if command[1:2] == ["-m"] else 0
    return " ".join(command[before + 1 :]) or "none"


def _gpus(report: Report) -> Fact:
    gpus = report.run.machine.get("gpus")
    return None if not isinstance(gpus, list) else ", ".join(map(str, gpus)) or "none"


def _machine(name: str) -> Callable[[Report], Fact]:
    def read(report: Report) -> Fact:
        value = report.run.machine.get(name)
        return value if isinstance(value, (str, int, float)) and value != "" else None

    return read


def _environment(name: str) -> Callable[[Report], Fact]:
    return lambda report: report.environment.get(name)


def samples_per_step(report: Report) -> float | None:
    """Samples in a batch; None when a rate was not measured."""
    rates = [report.metrics.get(name) for name in ("samples_per_s", "steps_per_s")]
    samples, steps = (rate.value if rate else None for rate in rates)
    return samples / steps if samples and steps else None


# In the order in which people look for them. The first group makes runs incomparable.
REFUSES: dict[str, Callable[[Report], Fact]] = {
    "script": _script,
    "torch": lambda report: report.run.torch,
    "python": lambda report: (re.match(r"\d+\.\d+", report.run.python) or [None])[0],
    "cpu": _machine("cpu"),
    "cores": _machine("cores"),
    "gpus": _gpus,
    "world-size": _environment("world_size"),
}
TELLS: dict[str, Callable[[Report], Fact]] = {
    "host": lambda report: report.run.host or None,
    "arguments": _arguments,
    "device": _environment("device"),
    "workers": _environment("num_workers"),
    "torch-threads": _environment("torch_threads"),
    "bdoc": _environment("bdoc"),
}
NAMES = (*REFUSES, *TELLS, "batch-size", "steps")
# What repeats of one job may differ in: seeds and output folders are arguments.
OF_ONE_JOB = frozenset({"host", "arguments", "steps", "bdoc"})


def differences(base: Report, new: Report) -> list[Difference]:
    """What is known of both runs and not the same."""
    found = []
    for refuses, facts in ((True, REFUSES), (False, TELLS)):
        for name, read in facts.items():
            before, after = read(base), read(new)
            if before is not None and after is not None and before != after:
                found.append(Difference(name, before, after, refuses))
    found += _batches(base, new)
    few, many = sorted((base.quality.steady_steps, new.quality.steady_steps))
    if few and many > STEPS_APART * few:
        found.append(Difference("steps", base.quality.steady_steps, new.quality.steady_steps))
    return found


def between(
    base: Sequence[Report], new: Sequence[Report], allowed: Collection[str] = ()
) -> tuple[list[Difference], str]:
    """What differs between two sides, each once, and "". Where they may not be compared: by what, and why."""
    for side, whose in ((base, "the baseline"), (new, "the new side")):
        for one in side[1:]:
            odd = [d for d in differences(side[0], one) if d.what not in OF_ONE_JOB | set(allowed)]
            if odd:
                return odd, f"the runs of {whose} are not repeats of one job"
    found: dict[str, Difference] = {}
    for before in base:
        for after in new:
            for difference in differences(before, after):
                found.setdefault(difference.what, difference)
    refusing = [one for one in found.values() if one.refuses and one.what not in allowed]
    if refusing:
        return refusing, "the baseline and the new runs are not comparable"
    return list(found.values()), ""


def same_batches(base: Sequence[Report], new: Sequence[Report]) -> bool:
    """Whether a step is as many samples on both sides, as far as that is known."""
    return not any(_batches(before, after) for before in base for after in new)


def _batches(base: Report, new: Report) -> list[Difference]:
    before, after = samples_per_step(base), samples_per_step(new)
    if before is None or after is None or abs(after - before) <= SAME_BATCH * max(before, after):
        return []
    return [Difference("batch-size", round(before, 1), round(after, 1))]


LOWER_IS_BETTER = frozenset(
    "data_wait_fraction exposed_data_wait_fraction step_time_s iowait_fraction startup_s evaluation_fraction "
    "checkpoint_fraction".split()
)
HIGHER_IS_BETTER = frozenset("steps_per_s samples_per_s gpu_busy_fraction mfu".split())
# An interval covers the noise inside one run, not between runs: two runs of one script on a quiet machine
# still differ by about this much. Chosen; nsys-ai has the same floor.
BETWEEN_RUNS = 0.02
BETWEEN_RUNS_FRACTION = 0.01


def compare(base: Report, new: Report) -> Comparison:
    """Both reports side by side, metric by metric in the order of the new one."""
    names = dict.fromkeys([*new.metrics, *base.metrics])
    moves = [_move(name, base.metrics.get(name), new.metrics.get(name)) for name in names]
    before, after = ({finding.id for finding in report.findings} for report in (base, new))
    return Comparison(
        base=base,
        new=new,
        moves=[move for move in moves if move is not None],
        gone=sorted(before - after),
        appeared=sorted(after - before),
        differences=differences(base, new),
    )


def _move(name: str, base: Metric | None, new: Metric | None) -> Move | None:
    """None when neither run measured it."""
    before, after = (metric.value if metric else None for metric in (base, new))
    if before is None and after is None:
        return None
    if base is None or new is None or before is None or after is None:
        return Move(name, "absent", base, new)
    delta = after - before
    if base.low is None or base.high is None or new.low is None or new.high is None:
        return Move(name, "unknown", base, new, delta)
    # The 90 % interval of a difference, the two runs being independent.
    low = delta - math.hypot(after - new.low, base.high - before)
    high = delta + math.hypot(new.high - after, before - base.low)
    return Move(name, _kind(name, before, delta, low, high), base, new, delta, low, high)


def _kind(name: str, before: float, delta: float, low: float, high: float) -> str:
    floor = BETWEEN_RUNS_FRACTION if is_fraction(name) else BETWEEN_RUNS * abs(before)
    if low <= 0 <= high or abs(delta) <= floor:
        return "noise"
    if name in LOWER_IS_BETTER:
        return "better" if delta < 0 else "worse"
    if name in HIGHER_IS_BETTER:
        return "better" if delta > 0 else "worse"
    return "moved"


# A sum in another order, or a fused kernel, differs by some units of single precision's 6e-8 at the first
# step, which training then amplifies; another precision (TF32, bfloat16) by 1e-4 and more at once.
LAST_DIGITS = 1e-5
# A change counts only if it is this many times larger than the script's own variation.
CLEARLY_MORE = 30.0
# Batches that may be on their way where noting ends: eight workers with two each, as loaders mostly have.
IN_FLIGHT = 16
LABELS = 32  # bits below those of a checksum that are of whole numbers alone (agent/trial/losses.py)

NOTHING_SEEN = "no loss was seen: backward was not called on a single number"
ONCE = "the losses differ, and the script ran only once without it: whether it repeats itself is not known"
NOT_THE_SAME_PROCESSES = "the runs trained in different numbers of processes"
UNSTEADY = "the script's own runs differ from each other although all begin with one seed"
OTHER_ORDER = "the same batches in another order"
OTHER_BATCHES = "the loop was given other batches: shuffled otherwise, or other random numbers in them"
REDRAWN = "the same samples with other random numbers in them, as random augmentation draws"
SAME_BATCHES = "the same batches"
BATCHES_UNKNOWN = "the batches themselves could not be compared"
# The best first.
BATCHES = {
    "same": SAME_BATCHES, "unknown": BATCHES_UNKNOWN, "order": OTHER_ORDER, "redrawn": REDRAWN,
    "other": OTHER_BATCHES,
}  # fmt: skip
WORSE = list(BATCHES).index
ALIKE = ("same", "unknown")
ONLY_LAST_DIGITS = "in the last digits only"
NOT_A_NUMBER = "a loss is not a finite number in one of them only"


@dataclass(frozen=True)
class _Apart:
    """How far two runs differ: ``largest`` relative difference of losses, infinite where one is no number
    and the other is; ``batches``: same, order, redrawn, other or unknown."""

    largest: float
    steps: int
    batches: str


def parity(baselines: Sequence[Trial], treated: Sequence[Trial]) -> Parity:
    """What the treatment did to the losses; the worst of its runs counts, and all ranks do."""
    before, after = [_seen(one) for one in baselines], [_seen(one) for one in treated]
    if not before or not after or not all(before) or not all(after):
        return Parity("unknown", NOTHING_SEEN)
    pairs = [_apart(before[0], other) for other in (*before[1:], *after)]
    found = [one for one in pairs if one is not None]
    if len(found) < len(pairs):
        return Parity("unknown", NOT_THE_SAME_PROCESSES)
    own, ours = found[: len(before) - 1], found[len(before) - 1 :]
    wanted = [one.order.losses for one in (*baselines, *treated) if one.order.losses]
    return _judged(own, ours, min([*wanted, *(one.steps for one in found)]))


def _judged(own: list[_Apart], ours: list[_Apart], steps: int) -> Parity:
    """``own``: how the baseline's other runs differ from its first; ``ours``: how the treated ones do."""
    worst = max(ours, key=lambda one: (one.largest, WORSE(one.batches)))
    drift = max((one.largest for one in own), default=0.0)
    largest = worst.largest if math.isfinite(worst.largest) else None
    if drift:
        if worst.largest <= CLEARLY_MORE * drift:
            return Parity("unknown", UNSTEADY, steps, largest)
    elif not worst.largest:
        # Equal losses may hide other batches: the loss may hardly change yet, and differ later.
        hidden = own and worst.batches not in ALIKE and all(one.batches in ALIKE for one in own)
        return Parity("identical", BATCHES[worst.batches] if hidden else "", steps, 0.0)
    elif not own:
        return Parity("unknown", ONCE, steps, largest)
    if worst.batches == "order":
        return Parity("order", OTHER_ORDER, steps, largest)
    return Parity("changed", _change(worst), steps, largest)


def _change(apart: _Apart) -> str:
    what = BATCHES[apart.batches]
    if not math.isfinite(apart.largest):
        return f"{what}; {NOT_A_NUMBER}"
    return f"{what}; losses differ {ONLY_LAST_DIGITS}" if apart.largest <= LAST_DIGITS else what


def _seen(trial: Trial) -> list[Losses]:
    """The processes that trained, in an order that two runs of one training share: by rank, and by their
    losses where no rank is known, since they may start in any order."""
    trained = [one for one in trial.losses if one.values]
    return sorted(trained, key=lambda one: (one.rank is None, one.rank or 0, one.values))


def _apart(one: list[Losses], other: list[Losses]) -> _Apart | None:
    """None where processes cannot be paired."""
    if [process.rank for process in one] != [process.rank for process in other]:
        return None
    pairs = list(zip(one, other, strict=True))
    losses = (_difference(x, y) for a, b in pairs for x, y in zip(a.values, b.values, strict=False))
    # A step may take several backward passes, and has one batch where a loader gives any.
    steps = min(len(each.batches or each.values) for pair in pairs for each in pair)
    steps = min(steps, *(len(each.values) for pair in pairs for each in pair))
    batches = max((_which_batches(a.batches, b.batches) for a, b in pairs), key=WORSE)
    return _Apart(max(losses, default=0.0), steps, batches)


def _difference(one: str, other: str) -> float:
    """Relative, of two numbers as ``float.hex`` writes them; what is written alike is the same."""
    if one == other:
        return 0.0
    a, b = float.fromhex(one), float.fromhex(other)
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    size = max(abs(a), abs(b))
    return abs(a - b) / size if size else 0.0


def _which_batches(one: Sequence[int], other: Sequence[int]) -> str:
    count = min(len(one), len(other))
    if not count:
        return "unknown"
    one, other = one[:count], other[:count]
    if one == other:
        return "same"
    common = (Counter(one) & Counter(other)).total()
    if common >= max(count - IN_FLIGHT, count / 2):
        return "order"
    labels = [number >> LABELS for number in one]
    known = len(set(labels)) > count / 2  # labels distinguish batches
    return "redrawn" if known and labels == [number >> LABELS for number in other] else "other"
