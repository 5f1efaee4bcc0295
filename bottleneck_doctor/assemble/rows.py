"""Reads what the agents wrote: rows and facts, tolerating files that end anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..agent import wire
from .facts import KINDS, LARGEST, Fact, is_sound, read

FILES_AT_MOST = 4096
ROWS_AT_MOST = 1_000_000  # of 360 bytes each, once they are read; processes that train are always read whole,
OTHERS_ROWS_AT_LEAST = 200_000  # and workers have at least so many
PART_BYTES = 128 * wire.ROW.size
EMPTY = bytes(PART_BYTES)  # most of what is reserved stays so, and to compare is cheaper than to unpack
INSTANT_BITS = 10  # of a nanosecond clock, below which instants are as good as random


class Row(tuple[int, ...]):
    """One row: ``t`` on CLOCK_MONOTONIC, ``thread``, ``kind``, and what wire.py declares for that kind."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __getattr__(self, column: str) -> int: ...

    @property
    def end(self) -> int:
        """When the event ended."""
        return self.t + getattr(self, "duration", 0)


def _type(duration: str, columns: list[str], thing: str) -> type[Row]:
    places = {"t": 0, duration: 1, thing: 7, "thread": 8, "kind": 9}
    places |= {name: place for place, name in enumerate(columns, 2)}
    named = {name: property(itemgetter(place)) for name, place in places.items()}
    return type("Row", (Row,), {"__slots__": (), **named})


TYPES = {number: _type(*declared) for number, declared in wire.KINDS.items()}
S = 1e-9  # seconds in a nanosecond


def append(table: object, **row: object) -> None:
    """Append one row to a table, by its columns."""
    for column, value in row.items():
        getattr(table, column).append(value)


@dataclass(frozen=True)
class ProcessLog:
    """Everything that one process wrote."""

    pid: int
    parent: int
    start_ns: int
    rows: list[Row]
    facts: list[dict[str, Any]] = field(default_factory=list)
    board: dict[str, int] = field(default_factory=dict)

    def facts_of(self, kind: type[Fact]) -> list[Fact]:
        """The facts of one kind, in the order in which they were written."""
        if kind not in self._facts_by_kind:
            found = (read(kind, fact, self.pid) for fact in self._by_name.get(KINDS[kind], ()))
            self._facts_by_kind[kind] = [one for one in found if one is not None]
        return self._facts_by_kind[kind]

    def first(self, kind: type[Fact]) -> Fact:
        """The first of them, or one with default values."""
        return next(iter(self.facts_of(kind)), kind())

    @cached_property
    def _facts_by_kind(self) -> dict[type, list[Any]]:
        return {}

    @cached_property
    def _by_name(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for fact in self.facts:
            found.setdefault(str(fact.get("fact")), []).append(fact)
        return found

    def of(self, *kinds: int, thread: int | None = None) -> list[Row]:
        """The rows of these kinds in the order of their start, of one thread or of all."""
        found = [row for kind in kinds for row in self._by_kind.get(kind, ())]
        found = found if len(kinds) == 1 else sorted(found)
        return found if thread is None else [row for row in found if row.thread == thread]

    def of_loader(self, kind: int, loader: int) -> list[Row]:
        """Those of one loader; a script may build a loader for each step, so all are read once."""
        if kind not in self._by_loader:
            found = self._by_loader[kind] = {}
            for row in self.of(kind):
                found.setdefault(row.loader, []).append(row)
        return self._by_loader[kind].get(loader, [])

    @cached_property
    def _by_loader(self) -> dict[int, dict[int, list[Row]]]:
        return {}

    @cached_property
    def _by_kind(self) -> dict[int, list[Row]]:
        """Asked for each of a hundred loaders, all are not read each time."""
        found: dict[int, list[Row]] = {}
        for row in sorted(self.rows):
            found.setdefault(row.kind, []).append(row)
        return found


BOARD = {
    "steps": wire.STEPS, "trained": wire.TRAINED, "first_ns": wire.FIRST, "dropped": wire.DROPPED,
    "cost_ns": wire.COST, "epoch_at": wire.EPOCH_AT,
}  # fmt: skip


def read_logs(folder: Path) -> list[ProcessLog]:
    """All processes of a run, oldest first; of more than can be held those that train, and the first others.
    Files of another version or without a header are left out."""
    heads = [head for path in folder.glob("*.rows") if (head := _head(path))]
    heads = sorted(heads, key=lambda head: (not head.trains, head.start_ns))[:FILES_AT_MOST]
    most = max(OTHERS_ROWS_AT_LEAST, ROWS_AT_MOST - sum(head.rows for head in heads if head.trains))
    one_in = 1 + sum(head.rows for head in heads if not head.trains) // most
    logs = []
    for head in heads:
        try:
            with open(head.path, "rb") as file:
                file.seek(wire.HEADER_BYTES)
                rows = list(_rows(file, 1 if head.trains else one_in))
        except OSError:
            continue
        facts = list(_facts(head.path.with_suffix(".facts")))
        logs.append(ProcessLog(head.pid, head.parent, head.start_ns, rows, facts, head.board))
    return sorted(logs, key=lambda log: log.start_ns)


@dataclass(frozen=True)
class _FileHeader:
    """What the header of a file says; ``rows`` have room in it."""

    path: Path
    pid: int
    parent: int
    start_ns: int
    board: dict[str, int]
    rows: int

    @property
    def trains(self) -> bool:
        return bool(self.board["first_ns"])


def _head(path: Path) -> _FileHeader | None:
    try:
        with open(path, "rb") as file:
            header, blocks = file.read(wire.HEADER_BYTES), os.fstat(file.fileno()).st_blocks
    except OSError:
        return None
    if len(header) < wire.HEADER_BYTES:
        return None
    *known, pid, parent, start = wire.IDENTITY.unpack_from(header, 0)
    sound = all(0 <= one < LARGEST for one in (pid, parent, start))
    if known != [wire.MAGIC, wire.VERSION, wire.ROW.size] or not sound:
        return None
    board = {name: wire.WORD.unpack_from(header, offset)[0] for name, offset in BOARD.items()}
    return _FileHeader(path, pid, parent, start, board, blocks * 512 // wire.ROW.size)


def _could_be(words: tuple[int, ...]) -> bool:
    """Whether an agent writes such an instant, duration and columns: files may be damaged or forged."""
    return words[0] > 0 and words[1] >= 0 and min(words) >= wire.NOTHING and max(words) < LARGEST


def _rows(file: BinaryIO, one_in: int) -> Iterator[Row]:
    """Whole rows only; a chunk without any row ends the file, since the rest was never reserved. Of every
    ``one_in`` instants one is kept, with all rows of it: a fetch has several."""
    while chunk := file.read(wire.CHUNK_BYTES):
        chunk = chunk[: len(chunk) - len(chunk) % wire.ROW.size]
        parts = (chunk[begin : begin + PART_BYTES] for begin in range(0, len(chunk), PART_BYTES))
        values = (one for part in parts if part != EMPTY[: len(part)] for one in wire.ROW.iter_unpack(part))
        found = [TYPES[one[-1]](one) for one in values if one[-1] in TYPES and _could_be(one[:7])]
        if not found:
            return
        yield from found if one_in == 1 else (row for row in found if (row.t >> INSTANT_BITS) % one_in == 0)


def _facts(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield {name: one for name, one in value.items() if is_sound(name, one)}
