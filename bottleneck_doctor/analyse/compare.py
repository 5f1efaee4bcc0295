"""What moved between two runs beyond the noise of both."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence

from ..model.gate import Comparison, Difference, Move
from ..model.report import Metric, Report
from .conditions import is_fraction

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


def _python(report: Report) -> Fact:
    found = re.match(r"\d+\.\d+", report.run.python)
    return found[0] if found else None


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
    "python": _python,
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
        base=base.verdict,
        new=new.verdict,
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
