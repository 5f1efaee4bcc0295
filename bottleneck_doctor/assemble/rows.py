"""Reads what the agents wrote: rows and facts, tolerating files that end anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..agent import wire

FILES_AT_MOST = 4096


class Row(NamedTuple):
    """One row as the treaty lays it out; times in nanoseconds on CLOCK_MONOTONIC."""

    t: int
    duration: int
    a: int
    b: int
    c: int
    d: int
    e: int
    thing: int
    thread: int
    kind: int


@dataclass(frozen=True)
class Diary:
    """Everything that one process wrote."""

    pid: int
    parent: int
    start_ns: int
    rows: list[Row]
    facts: list[dict[str, Any]] = field(default_factory=list)
    board: dict[str, int] = field(default_factory=dict)

    def first(self, fact: str) -> dict[str, Any]:
        """The first fact of that name, or an empty one."""
        return next((line for line in self.facts if line.get("fact") == fact), {})

    def of(self, kind: int) -> list[Row]:
        """The rows of one kind, in the order of their start."""
        return sorted(self.by_kind.get(kind, ()))

    @cached_property
    def by_kind(self) -> dict[int, list[Row]]:
        """The rows as they were written: asked for each of a hundred loaders, all are not read each time."""
        found: dict[int, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.kind, []).append(row)
        return found


BOARD = {
    "steps": wire.STEPS, "trained": wire.TRAINED, "wait_ns": wire.WAIT, "first_ns": wire.FIRST,
    "last_ns": wire.LAST, "dropped": wire.DROPPED, "cost_ns": wire.COST, "epoch_at": wire.EPOCH_AT,
}  # fmt: skip


def read_diaries(folder: Path) -> list[Diary]:
    """All processes of a run, oldest first. Files of another version or without a header are left out."""
    paths = sorted(folder.glob("*.rows"))[:FILES_AT_MOST]
    diaries = [diary for path in paths if (diary := _read(path)) is not None]
    return sorted(diaries, key=lambda diary: diary.start_ns)


def _read(path: Path) -> Diary | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < wire.HEADER_BYTES:
        return None
    magic, version, size, pid, parent, start = wire.IDENTITY.unpack_from(data, 0)
    if magic != wire.MAGIC or version != wire.VERSION or size != wire.ROW.size:
        return None
    board = {name: wire.WORD.unpack_from(data, offset)[0] for name, offset in BOARD.items()}
    return Diary(pid, parent, start, list(_rows(data)), list(_facts(path.with_suffix(".facts"))), board)


def _rows(data: bytes) -> Iterator[Row]:
    """Whole rows only; a chunk without any row ends the file, since the rest was never reserved."""
    for begin in range(wire.HEADER_BYTES, len(data), wire.CHUNK_BYTES):
        chunk = data[begin : begin + wire.CHUNK_BYTES]
        chunk = chunk[: len(chunk) - len(chunk) % wire.ROW.size]
        found = [Row(*values) for values in wire.ROW.iter_unpack(chunk.rstrip(b"\0") + b"\0" * _pad(chunk))]
        found = [row for row in found if row.kind and row.t > 0]
        if not found:
            return
        yield from found


def _pad(chunk: bytes) -> int:
    return -len(chunk.rstrip(b"\0")) % wire.ROW.size


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
            yield value
