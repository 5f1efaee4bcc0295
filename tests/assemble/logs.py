"""Diaries written by hand: iterators that give batches at chosen moments, in milliseconds."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.rows import TYPES, ProcessLog, Row

MS = 1_000_000
PID = 100


@dataclass
class Script:
    """What one process did so far."""

    rows: list[Row] = field(default_factory=list)
    backwards: int = 0
    optimizer_steps: int = 0
    waited: dict[int, int] = field(default_factory=dict)
    arrived: dict[int, int] = field(default_factory=dict)


def row(kind: int, t_ms: float, took_ms: float = 0.0, *values: int, thing: int = 0, thread: int = 0) -> Row:
    """A row of the treaty."""
    a, b, c, d, e = [*values, 0, 0, 0, 0, 0][:5]
    return TYPES[kind]((int(t_ms * MS), round(took_ms * MS), a, b, c, d, e, thing, thread, kind))


def opens(
    script: Script, iterator: int, t_ms: float, loader: int = 1, took_ms: float = 0.0, thread: int = 0
) -> None:
    """``iter(loader)``."""
    script.rows.append(row(wire.EPOCH, t_ms, took_ms, iterator, thing=loader, thread=thread))
    script.waited[iterator] = int(took_ms * MS)
    script.arrived[iterator] = 0


def asks(
    script: Script,
    iterator: int,
    t_ms: float,
    wait_ms: float = 1.0,
    loader: int = 1,
    thread: int = 0,
    skipped: int = 0,
) -> None:
    """A batch is asked for at ``t_ms`` and looked at closely, ``skipped`` others having come unobserved."""
    script.waited[iterator] += int(wait_ms * MS) * (skipped + 1)
    script.arrived[iterator] += skipped + 1
    cpu = int(0.1 * t_ms * MS)
    counts = (script.waited[iterator], script.backwards, script.optimizer_steps)
    first = (script.arrived[iterator], int(0.1 * MS), *counts)
    second = (cpu, 2 * cpu, 0, wire.NOTHING, 0)
    script.rows.append(row(wire.NEXT, t_ms, wait_ms, *first, thing=loader, thread=thread))
    script.rows.append(row(wire.CLOCKS, t_ms, iterator / MS, *second, thing=loader, thread=thread))


def trains(script: Script, t_ms: float, steps: int = 1, thread: int = 0) -> None:
    """A backward pass and an optimizer step, heard at ``t_ms``."""
    script.backwards += steps
    script.optimizer_steps += steps
    script.rows.append(row(wire.BACKWARD, t_ms, 0.5, thread=thread))


def ends(script: Script, iterator: int, t_ms: float, loader: int = 1, thread: int = 0) -> None:
    """StopIteration."""
    values = (iterator, 1, script.waited[iterator], script.arrived[iterator], script.backwards)
    script.rows.append(row(wire.END, t_ms, 0.0, *values, thing=loader, thread=thread))


def log(rows: Iterable[Row], pid: int = PID, facts: list[dict[str, object]] | None = None) -> ProcessLog:
    """The process as it is read back."""
    return ProcessLog(pid, 1, 1, list(rows), list(facts or []), {})


def loader_fact(thing: int = 1, **more: object) -> dict[str, object]:
    """The construction of a loader."""
    place = {"file": "train.py", "line": thing}
    return {"fact": "loader", "thing": thing, "dataset": f"Data{thing}", **place, **more}
