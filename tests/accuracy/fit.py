"""``python -m tests.accuracy.fit``: what each fitted constant is fitted on, and how it does on runs left out.

Every recorded run with a measured twin is diagnosed again with other values of one constant at a time. The
value that suits the others best is held against the run that was left out: that error is cross-validated.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tests.lab.table import line

RECORDED = Path(__file__).parents[1] / "golden" / "accuracy"
TOLD = 0.01  # a prediction that moves by less is not decided by the constant


@dataclass(frozen=True)
class Constant:
    """A number of the model of the machine: where it stands, and the values that are tried beside its own."""

    module: str
    name: str
    means: str
    values: tuple[Any, ...]

    @property
    def current(self) -> Any:
        """The value in the code."""
        return getattr(importlib.import_module(self.module), self.name)


ANALYSE, FINDINGS = "bottleneck_doctor.analyse", "bottleneck_doctor.findings"
CONSTANTS = (
    Constant(f"{ANALYSE}.moving", "RECEIVED_S", "loop CPU to receive a batch, s", (1.5e-4, 2.5e-4, 5e-4)),
    Constant(f"{ANALYSE}.moving", "RECEIVED_TENSOR_S", "and for each tensor in it, s",
             (6e-5, 1.1e-4, 2.5e-4, 4e-4)),
    Constant(f"{ANALYSE}.scenario", "WAKE_S", "wait for a core at a wake-up, s", (2.5e-4, 5e-4, 2e-3, 4e-3)),
    Constant(f"{ANALYSE}.replay", "TOGETHER", "speed left to threads that share a core, two cores",
             ((0.3, 0.2), (0.55, 0.4), (0.67, 0.5))),
    Constant(f"{ANALYSE}.replay", "SHARED", "of its core left to a worker beside them", (0.3, 0.4, 0.7, 1.0)),
    Constant(f"{ANALYSE}.replay", "DIVIDED", "of perfect sharing gained by threads", (0.25, 0.35, 0.75, 1.0)),
    Constant(f"{ANALYSE}.predict", "DISTURBED", "of a step's rest goes with the cured", (0.0, 0.07, 0.2)),
    Constant(f"{FINDINGS}.parts.advice", "TAKE_S", "CPU to take a sample from memory, s", (2e-6, 1e-5, 2e-5)),
)  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """Errors are of the logarithm of predicted over measured; ``chosen`` are the values that leaving out one
    run after the other led to."""

    constant: Constant
    moved: tuple[str, ...]
    best: Any
    chosen: tuple[Any, ...]
    now: float
    inside: float
    left_out: float


def main(argv: Sequence[str] | None = None) -> int:
    """Fit the constants one after the other, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.fit", description=__doc__)
    parser.add_argument("--only", help="names of constants, separated by commas")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(argv)
    wanted = given.only.split(",") if given.only else [one.name for one in CONSTANTS]
    print(HEADER, flush=True)
    with ProcessPoolExecutor(given.processes) as pool:
        for constant in (one for one in CONSTANTS if one.name in wanted):
            tried = (constant.current, *constant.values)
            rows = {
                value: dict(pool.map(errors_with, repeat(constant), repeat(value), names()))
                for value in tried
            }
            print(told(fitted(constant, rows)), flush=True)
    return 0


def names() -> list[str]:
    """The recorded patients that have a twin."""
    from tests.patients.expected import PATIENTS

    return [one.name for one in PATIENTS if one.twin and (RECORDED / f"{one.name}.taken.json").exists()]


def errors_with(constant: Constant, value: Any, name: str) -> tuple[str, float | None]:
    """(patient, error of its prediction with this value of the constant); None where none is a number."""
    from bottleneck_doctor.analyse import replay
    from tests.lab.kept import again
    from tests.patients.expected import PATIENTS

    module, before = importlib.import_module(constant.module), constant.current
    replay._step_seconds.cache_clear()
    setattr(module, constant.name, value)
    try:
        judged = again(RECORDED, next(one for one in PATIENTS if one.name == name))
    finally:
        setattr(module, constant.name, before)
        replay._step_seconds.cache_clear()
    if judged is None or judged.predicted is None or not judged.measured:
        return name, None
    return name, log(judged.predicted[1] / judged.measured)


def fitted(constant: Constant, rows: dict[Any, dict[str, float | None]]) -> Fit:
    """``rows``: value -> patient -> error; the first is the value in the code."""
    current = next(iter(rows))
    known = {name for name in rows[current] if all(row[name] is not None for row in rows.values())}
    moved = tuple(sorted(name for name in known if _range(row[name] for row in rows.values()) > TOLD))
    if not moved:
        return Fit(constant, (), current, (current,), 0.0, 0.0, 0.0)
    best = _best(rows, moved)
    chosen = {left: _best(rows, [one for one in moved if one != left] or moved) for left in moved}
    return Fit(
        constant,
        moved,
        best,
        tuple(dict.fromkeys(chosen.values())),
        _size(rows[current][one] for one in moved),
        _size(rows[best][one] for one in moved),
        _size(rows[chosen[one]][one] for one in moved),
    )


def _range(errors: Iterable[float | None]) -> float:
    known = [one for one in errors if one is not None]
    return max(known) - min(known)


def _best(rows: dict[Any, dict[str, float | None]], over: Sequence[str]) -> Any:
    """The value with the least mean error; the one in the code where another gains nothing."""
    mean: Callable[[Any], float] = lambda value: fmean(abs(rows[value][one] or 0.0) for one in over)  # noqa: E731
    return min(rows, key=mean)


def _size(errors: Iterable[float | None]) -> float:
    return median(abs(one or 0.0) for one in errors)


HEADER = (
    "| constant | what it is | in the code | best | leaving one out | error: as is | best | left out "
    "| decides |\n|---|---|---|---|---|---|---|---|---|"
)


def told(fit: Fit) -> str:
    """One row; errors in percent, medians over the predictions that the constant moves."""
    percents = (f"{100 * (exp(one) - 1):.0f} %" for one in (fit.now, fit.inside, fit.left_out))
    values = ", ".join(map(str, fit.chosen))
    decides = f"{len(fit.moved)}: {', '.join(fit.moved)}" if fit.moved else "none of the recorded"
    one = fit.constant
    cells = [one.name, one.means, str(one.current), str(fit.best), values, *percents, decides]
    return line(cells)


if __name__ == "__main__":
    raise SystemExit(main())
