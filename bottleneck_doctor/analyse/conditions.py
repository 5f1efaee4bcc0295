"""Reads the gate's conditions: ``METRIC OP VALUE`` names a state that fails; nonsense is refused."""

from __future__ import annotations

import difflib
import itertools
import math
import operator as op
import re
from collections.abc import Collection, Iterable

from ..model.errors import UsageError
from ..model.gate import Condition

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
    found = SHAPE.fullmatch(text[:LONGEST])
    if found is None:
        raise UsageError(f"{origin} {_shown(text)} is not METRIC OP VALUE: write it like {EXAMPLE}")
    metric, sign, number = found.groups()
    if sign not in OPERATORS:
        hint = f"did you mean {MEANT[sign]}" if sign in MEANT else f"use one of {' '.join(OPERATORS)}"
        raise UsageError(f"{origin} {_shown(text)}: no operator {sign}, {hint}")
    if metric not in known:
        raise UsageError(f"{origin}: no metric {_shown(metric)}, {_nearest(metric, known)}")
    condition = Condition(
        metric, sign, _number(number, is_fraction(metric), f"{origin} {_shown(text)}"), origin
    )
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


def _nearest(metric: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(metric, known, n=1, cutoff=0.5)
    inside = [name for name in known if metric.strip("_") and metric.lower().strip("_") in name]
    guess = near or inside[:1]
    return f"did you mean {guess[0]}" if guess else f"known are {', '.join(sorted(known))}"


def _shown(text: str) -> str:
    cut = text if len(text) <= LONGEST // 2 else text[: LONGEST // 2] + "..."
    return f"'{cut if cut.isprintable() else cut.encode('unicode_escape').decode()}'"
