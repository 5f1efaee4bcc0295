"""Fills the tables of a fleet from reports, and from profiles by way of their reports."""

from __future__ import annotations

import glob
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb

from ..model.codec import LARGEST_FILE
from ..model.report import RefusedFile
from .tables import CREATE, FILL, PARSE

Diagnose = Callable[[bytes], bytes]  # a profile's bytes to its report's; raises ValueError for what is none
AT_ONCE = 5000  # files: their texts, 25 KiB each, are in memory together
PROFILES_AT_ONCE = 256  # up to 2 MiB each; `seen` is called after so many
PROFILE = "profile"  # what `tables.PARSE` calls one


@dataclass
class Reading:
    """What has become of the files so far."""

    refused: list[RefusedFile] = field(default_factory=list)
    diagnosed: int = 0
    diagnosing_s: float = 0.0
    to_diagnose: int = 0


def find(paths: Iterable[str]) -> tuple[list[str], list[RefusedFile]]:
    """The files, each once, and those that cannot be read."""
    found: dict[str, str] = {}  # and why it cannot be read
    for path in paths:
        files = _listed(path)
        if not files:
            missing = not os.path.lexists(path) and not glob.has_magic(path)
            found[path] = "no such file or folder" if missing else "no report or profile is there"
        found |= {name: _refusal(name) for name in files}
    refused = [RefusedFile(name, why) for name, why in found.items() if why]
    return [name for name, why in found.items() if not why], refused


def _refusal(name: str) -> str:
    try:
        size = os.stat(name).st_size
    except OSError as problem:
        return reason(problem)
    if not name.isprintable():
        return "its name cannot be printed"
    return f"larger than {LARGEST_FILE >> 20} MiB" if size > LARGEST_FILE else ""


def _listed(path: str) -> list[str]:
    """A file that was named, whatever it is called; of a folder's files those with the right ending."""
    if os.path.isdir(path):
        inside = (os.path.join(place, name) for place, _, names in os.walk(path) for name in names)
        return sorted(os.path.abspath(name) for name in inside if name.endswith(".json"))
    if os.path.exists(path):
        return [os.path.abspath(path)]
    return [name for match in sorted(glob.glob(path, recursive=True)) for name in _listed(match)]


def reason(problem: Exception) -> str:
    """The first line of what the system or DuckDB reports of a failure."""
    if isinstance(problem, FileNotFoundError):
        return "no such file or folder"
    text = getattr(problem, "strerror", None) or str(problem).strip() or type(problem).__name__
    return " ".join(str(text).splitlines()[0].split())


def open_store(threads: int) -> duckdb.DuckDBPyConnection:
    """An empty store in memory, which may spill to TMPDIR."""
    spill = tempfile.mkdtemp(prefix="bdoc-fleet-")  # a known name could have been taken by another user
    store = duckdb.connect(
        config={"temp_directory": spill, "threads": threads, "autoinstall_known_extensions": False}
    )
    weakref.finalize(store, shutil.rmtree, spill, ignore_errors=True)
    store.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    store.execute(CREATE)
    return store


def read(
    store: duckdb.DuckDBPyConnection,
    files: list[str],
    diagnose: Diagnose,
    workers: int,
    seen: Callable[[Reading], None] = lambda _: None,
) -> Reading:
    """Read these into the store. Profiles take a third of a second each on one of ``workers`` processes;
    ``seen`` is called for each batch of them."""
    reading = Reading()
    profiles: list[str] = []
    for names in _batches(files, AT_ONCE):
        profiles += _take(store, names, reading)
    reading.to_diagnose = len(profiles)
    for names in _batches(profiles, PROFILES_AT_ONCE):
        _diagnose(store, names, diagnose, workers, reading)
        seen(reading)
    return reading


def runs_of(store: duckdb.DuckDBPyConnection) -> int:
    """How many runs the store knows."""
    return int(store.execute("SELECT count(*) FROM runs").fetchall()[0][0])


def _take(store: duckdb.DuckDBPyConnection, names: list[str], reading: Reading) -> list[str]:
    """Read these reports; the names of the profiles among them."""
    quoted = [glob.escape(name) for name in names]
    try:  # DuckDB reads each file as a chunk, and taking JSON apart costs 4 ms a chunk: hence a table of all
        store.execute(
            "CREATE OR REPLACE TEMP TABLE texts AS"
            " SELECT filename AS file, TRY(decode(content)) AS text FROM read_blob(?)",
            [quoted],
        )
    except duckdb.Error as problem:  # one that has vanished fails all
        if len(names) == 1:
            reading.refused.append(RefusedFile(names[0], reason(problem)))
            return []
        half = len(names) // 2
        return [*_take(store, names[:half], reading), *_take(store, names[half:], reading)]
    return _fill(store, reading)


def _fill(store: duckdb.DuckDBPyConnection, reading: Reading) -> list[str]:
    """Put the reports in `texts` into the tables; the names of the profiles, which hold no report."""
    for statement in (PARSE, *FILL):
        store.execute(statement)
    others = store.execute("SELECT file, why FROM parsed WHERE why IS NOT NULL ORDER BY ALL").fetchall()
    reading.refused += [RefusedFile(file, why) for file, why in others if why != PROFILE]
    return [file for file, why in others if why == PROFILE]


def _diagnose(
    store: duckdb.DuckDBPyConnection, names: list[str], diagnose: Diagnose, workers: int, reading: Reading
) -> None:
    began = time.monotonic()
    data = []
    for name in names:
        try:
            data.append(Path(name).read_bytes()[:LARGEST_FILE])
        except OSError as problem:
            data.append(b"")
            reading.refused.append(RefusedFile(name, reason(problem)))
    drawn = _in_processes(data, partial(_ask, diagnose), workers)
    reports = [(name, text) for name, (text, _) in zip(names, drawn, strict=True) if text]
    reading.refused += [RefusedFile(name, why) for name, (_, why) in zip(names, drawn, strict=True) if why]
    if reports:
        store.execute(
            "CREATE OR REPLACE TEMP TABLE texts AS SELECT unnest(?) AS file, unnest(?) AS text",
            [list(column) for column in zip(*reports, strict=True)],
        )
        _fill(store, reading)
    reading.diagnosed += len(reports)
    reading.diagnosing_s += time.monotonic() - began


def _in_processes(
    data: list[bytes], ask: Callable[[bytes], tuple[str, str]], workers: int
) -> list[tuple[str, str]]:
    """Each one's report, or why there is none. One that ends its process costs the others a second try."""
    here = os.open(os.curdir, os.O_PATH)
    os.chdir("/")  # new interpreters look for modules in the working directory, which others may write to
    pool = ProcessPoolExecutor(
        min(workers, len(data)), multiprocessing.get_context("spawn"), signal.signal,
        (signal.SIGINT, signal.SIG_IGN),  # an interrupt is the parent's to handle
    )  # fmt: skip
    try:
        return list(pool.map(ask, data))
    except BrokenProcessPool:
        if len(data) == 1:
            return [("", "diagnosing it ended the process that did")]
    finally:
        pool.shutdown(cancel_futures=True)
        os.fchdir(here)
        os.close(here)
    half = len(data) // 2
    return [*_in_processes(data[:half], ask, workers), *_in_processes(data[half:], ask, workers)]


def _ask(diagnose: Diagnose, data: bytes) -> tuple[str, str]:
    if not data:
        return "", ""
    try:
        return diagnose(data).decode(), ""
    except Exception as problem:  # one profile of thousands, whatever is in it
        return "", reason(problem)


def _batches(names: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
