"""Functions, operators and environment in words."""

from __future__ import annotations

import re

from ..model.code import Location
from ..model.derived import HotFunction, HotOperator
from . import words
from .document import HotRow, Hottest

INSTALLED = re.compile(r"^/.*/(?:site|dist)-packages/|^/.*/lib(?:64)?/(?=python3\.)")
ROLES = {"trainer": "the training thread", "worker": "the workers", "other": "other threads"}
# Of a function's samples: twenty tell such shares from a half, and no finer word is needed (ours).
AWAKE = 0.8
ASLEEP = 0.2


def compose_functions(functions: list[HotFunction], cwd: str, longest: int, least: float) -> Hottest:
    """Functions with their own share, which is ``least`` or more, and the share with all that they call."""
    taken = {one.role: one.n for one in functions}
    said = [
        f"{words.counted(n, 'sample')} of {ROLES.get(role, words.plain(role))}" for role, n in taken.items()
    ]
    rows = [_function(one, cwd) for one in functions[:longest] if one.own_share >= least]
    return Hottest(", ".join(said), rows, len(functions) - len(rows))


def _function(one: HotFunction, cwd: str) -> HotRow:
    role = " (worker)" if one.role == "worker" else ""
    name = words.plain(one.function) + role
    return HotRow(
        words.percent(one.own_share),
        words.percent(one.total_share),
        name,
        place(one.location, cwd),
        state(one.on_cpu_share),
    )


def state(on_cpu_share: float | None) -> str:
    """``on CPU``, ``blocked``, ``mixed, 40 % on CPU``; empty where it was not seen."""
    if on_cpu_share is None:
        return ""
    if ASLEEP < on_cpu_share < AWAKE:
        return f"mixed, {words.percent(on_cpu_share)} on CPU"
    return "on CPU" if on_cpu_share >= AWAKE else "blocked"


def compose_operators(operators: list[HotOperator], longest: int, least: float) -> Hottest:
    """Operators with their share of all operators' own time, and that time: the accelerator's, where it
    computed them, else the CPU's."""
    device = any(one.self_device_s for one in operators)
    times = [one.self_device_s if device else one.self_cpu_s for one in operators]
    whole, whose = words.seconds(sum(times)), "time of the accelerator" if device else "own CPU time"
    rows = [
        HotRow(
            words.percent(one.share),
            words.seconds(taken),
            words.plain(one.name),
            f"{words.count(one.calls)} {'call' if one.calls == 1 else 'calls'}",
        )
        for one, taken in list(zip(operators, times, strict=True))[:longest]
        if one.share >= least
    ]
    return Hottest(f"{whose} in one profiled step, {whole} in all", rows, len(operators) - len(rows))


def compose_environment(environment: dict[str, str | float | None], longest: int) -> list[tuple[str, str]]:
    """What is known, by name."""
    known = [(name, value) for name, value in environment.items() if value is not None]
    return [
        (
            words.plain(name).replace("_bytes", "").replace("_", " "),
            words.plain(value) if isinstance(value, str) else words.quantity(name, value),
        )
        for name, value in known[:longest]
    ]


def place(location: Location | None, cwd: str) -> str:
    """File and line, seen from where the run was started; a library's or Python's from where those lie."""
    if location is None:
        return ""
    home = cwd.rstrip("/") + "/"
    file = location.file[len(home) :] if cwd and location.file.startswith(home) else location.file
    file = INSTALLED.sub("", file)
    return f"{words.plain(file)}:{location.line}"
