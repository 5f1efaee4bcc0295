"""Fills the tables of a fleet from reports, from profiles by way of their reports, from a fleet's Parquet."""

from __future__ import annotations

import glob
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb

from ..model.codec import LARGEST_FILE
from ..model.errors import UsageError
from ..model.report import RefusedFile
from .tables import CREATE, FILL, OF_RUNS, PARSE, TABLES

RUNS_FILE = "runs.parquet"  # a folder that holds it is a fleet's, written by --to-parquet
Diagnose = Callable[[bytes], bytes]  # a profile's bytes to its report's; raises ValueError for what is none
AT_ONCE = 5000  # files: their texts, 25 KiB each, are in memory together
PROFILES_AT_ONCE = 256  # up to 2 MiB each; so many are lost at most when the call is broken off
PROFILE = "profile"  # what `tables.PARSE` calls one


@dataclass
class Reading:
    """What has become of the files so far."""

    refused: list[RefusedFile] = field(default_factory=list)
    diagnosed: int = 0
    diagnosing_s: float = 0.0
    to_diagnose: int = 0


@dataclass(frozen=True)
class Source:
    """A report, a profile, or the ``RUNS_FILE`` of a fleet. ``modified`` changes when the file does."""

    name: str
    size: int
    modified: str


def find(paths: Iterable[str]) -> tuple[list[Source], list[RefusedFile]]:
    """The files, each once, and those that cannot be read."""
    found: dict[str, Source] = {}
    refused: list[RefusedFile] = []
    for path in paths:
        files = _listed(path)
        if not files:
            missing = not os.path.lexists(path) and not glob.has_magic(path)
            why = "no such file or folder" if missing else "no report, profile or fleet's folder is there"
            refused.append(RefusedFile(path, why))
        for name in files:
            try:
                state = os.stat(name)
            except OSError as problem:
                refused.append(RefusedFile(name, reason(problem)))
                continue
            if name.isprintable():
                found.setdefault(name, Source(name, state.st_size, str(state.st_mtime_ns)))
            else:
                refused.append(RefusedFile(name, "its name cannot be printed"))
    return list(found.values()), refused


def _listed(path: str) -> list[str]:
    """A file that was named, whatever it is called; of a folder's files those with the right ending."""
    if os.path.isdir(path):
        inside = (os.path.join(place, name) for place, _, names in os.walk(path) for name in names)
        return sorted(os.path.abspath(name) for name in inside if name.endswith((".json", f"/{RUNS_FILE}")))
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
    store = duckdb.connect()
    store.execute("SET TimeZone = 'UTC'; SET autoinstall_known_extensions = false")
    store.execute(f"SET enable_progress_bar = false; SET threads = {threads}")
    spill = tempfile.mkdtemp(prefix="bdoc-fleet-")  # a known name could have been taken by another user
    weakref.finalize(store, shutil.rmtree, spill, ignore_errors=True)
    store.execute(f"SET temp_directory = {_text(spill)}")
    store.execute(CREATE)
    return store


def read(
    store: duckdb.DuckDBPyConnection,
    sources: Sequence[Source],
    diagnose: Diagnose,
    reader: str,
    workers: int,
    seen: Callable[[Reading], None] = lambda _: None,
    folder: str | None = None,
) -> Reading:
    """Read all that the store does not know already. ``reader`` is this version; ``folder`` keeps the tables,
    also after each batch of profiles, which take a third of a second each on one of ``workers`` processes;
    ``seen`` is called for each batch. Raises ``UsageError`` where the folder cannot be read or written."""
    reading = Reading()
    if folder is not None and os.path.isfile(f"{folder}/{RUNS_FILE}"):
        _load(store, folder)
    files = [one for one in sources if not one.name.endswith(f"/{RUNS_FILE}")]
    for one in sources:
        if one not in files:
            try:
                _load(store, os.path.dirname(one.name))
            except UsageError as problem:
                reading.refused.append(RefusedFile(one.name, str(problem)))
    new = _unknown(store, files, reader)
    large = [one.name for one in new if one.size > LARGEST_FILE]
    reading.refused += [RefusedFile(name, f"larger than {LARGEST_FILE >> 20} MiB") for name in large]
    profiles: list[str] = []
    for names in _batches([one.name for one in new if one.size <= LARGEST_FILE], AT_ONCE):
        profiles += _take(store, names, reading)
    reading.to_diagnose = len(profiles)
    for names in _batches(profiles, PROFILES_AT_ONCE):
        _diagnose(store, names, diagnose, workers, reading)
        seen(reading)
        if folder is not None:
            save(store, folder)
    if folder is not None and runs_of(store):
        save(store, folder)
    return reading


def runs_of(store: duckdb.DuckDBPyConnection) -> int:
    """How many runs the store knows."""
    return int(store.execute("SELECT count(*) FROM runs").fetchall()[0][0])


def _take(store: duckdb.DuckDBPyConnection, names: list[str], reading: Reading) -> list[str]:
    """The same for these files."""
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


def _unknown(store: duckdb.DuckDBPyConnection, sources: Sequence[Source], reader: str) -> list[Source]:
    """Those that are not in the store, or have changed since, or were read by another version; the rows
    of these are deleted."""
    columns = [[getattr(one, name) for one in sources] for name in ("name", "size", "modified")]
    store.execute(
        "CREATE OR REPLACE TEMP TABLE given AS SELECT unnest(?::VARCHAR[]) AS file,"
        " unnest(?::BIGINT[]) AS size, unnest(?::VARCHAR[]) AS modified, ?::VARCHAR AS reader",
        [*columns, reader],
    )
    store.execute("CREATE OR REPLACE TEMP TABLE changed AS SELECT file FROM given ANTI JOIN files"
                  " USING (file, size, modified, reader)")  # fmt: skip
    for table in ("runs", "files"):
        store.execute(f"DELETE FROM {table} WHERE file IN (SELECT file FROM changed)")
    for table in OF_RUNS:
        store.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT run FROM runs)")
    new = {name for (name,) in store.execute("SELECT file FROM changed").fetchall()}
    return [one for one in sources if one.name in new]


def _load(store: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Add all of a fleet's folder to the store, or nothing; runs that are known already are left."""
    store.begin()
    try:
        store.execute(
            "CREATE OR REPLACE TEMP TABLE fresh AS"
            " SELECT run FROM read_parquet(?) ANTI JOIN runs USING (run)",
            [f"{folder}/{RUNS_FILE}"],
        )
        for table, columns in TABLES.items():
            names = ", ".join(name for name, *_ in columns)
            known = "file NOT IN (SELECT file FROM files)"
            new = "run IN (SELECT run FROM fresh)" if table in OF_RUNS else known
            store.execute(
                f"INSERT INTO {table} BY NAME SELECT {names} FROM read_parquet(?) WHERE {new}",
                [f"{folder}/{table}.parquet"],
            )
        store.commit()
    except duckdb.Error as problem:
        store.rollback()
        raise UsageError(f"the fleet in {folder!r} cannot be read: {reason(problem)}") from None


def save(store: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Write the tables as Parquet, each at once; the list of files last, so that what a broken-off call left
    out is read again. Raises ``UsageError``."""
    try:
        os.makedirs(folder, exist_ok=True)
        for table in TABLES:
            file = f"{folder}/{table}.parquet"
            store.execute(f"COPY {table} TO {_text(file + '.part')} (FORMAT parquet, COMPRESSION zstd)")
            os.replace(f"{file}.part", file)
    except (OSError, duckdb.Error) as problem:
        raise UsageError(f"cannot write to --to-parquet {folder!r}: {reason(problem)}") from None


def _batches(names: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
