"""Fills the tables of a fleet from reports, from profiles by way of their reports, from a fleet's Parquet."""

from __future__ import annotations

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
from typing import Any

import duckdb
import fsspec

from ..model.codec import LARGEST_FILE
from ..model.errors import UsageError
from ..model.fleet import RefusedFile
from .sources import PATTERN, RUNS_FILE, Source, is_fleet, reason
from .tables import CREATE, FILL, OF_RUNS, TABLES, TELL

Diagnose = Callable[[bytes], bytes]  # a profile's bytes to its report's; raises ValueError for what is none
AT_ONCE = 5000  # files: their texts, 25 KiB each, are in memory together
PROFILES_AT_ONCE = 256  # up to 2 MiB each; so many are lost at most when the call is broken off
PROFILE = "profile"  # what `tables.TELL` says of one


@dataclass
class Reading:
    """What has become of the files so far."""

    refused: list[RefusedFile] = field(default_factory=list)
    diagnosed: int = 0
    diagnosing_s: float = 0.0
    to_diagnose: int = 0


def open_store(remote: Iterable[Any] = (), threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An empty store in memory, which may spill to TMPDIR. ``remote`` are file systems of fsspec."""
    store = duckdb.connect()
    store.execute("SET TimeZone = 'UTC'; SET autoinstall_known_extensions = false")
    store.execute("SET enable_progress_bar = false")
    spill = tempfile.mkdtemp(prefix="bdoc-fleet-")  # a known name could have been taken by another user
    weakref.finalize(store, shutil.rmtree, spill, ignore_errors=True)
    store.execute(f"SET temp_directory = {_text(spill)}")
    if threads is not None:
        store.execute(f"SET threads = {threads}")
    for system in remote:
        store.register_filesystem(system)
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
    if folder is not None and is_fleet(folder):
        _load(store, folder)
    for one in sources:
        if one.kind == "tables":
            try:
                _load(store, one.name.removesuffix(f"/{RUNS_FILE}"))
            except UsageError as problem:
                reading.refused.append(RefusedFile(one.name, str(problem)))
    new = _unknown(store, [one for one in sources if one.kind != "tables"], reader)
    large = [one.name for one in new if one.kind == "json" and one.size > LARGEST_FILE]
    reading.refused += [RefusedFile(name, f"larger than {LARGEST_FILE >> 20} MiB") for name in large]
    profiles: list[str] = []
    for names in _batches([one.name for one in new if one.kind == "json" and one.name not in large], AT_ONCE):
        profiles += _tell(store, BLOBS, names, reading)
    for one in new:
        if one.kind == "lines":
            _tell(store, LINES, [one.name], reading)
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


BLOBS = "SELECT filename AS file, TRY(decode(content)) AS text FROM read_blob(?)"
LINES = f"""SELECT filename AS file, json AS text FROM read_ndjson_objects(
    ?, filename = true, ignore_errors = true, maximum_object_size = {LARGEST_FILE})"""


def _tell(store: duckdb.DuckDBPyConnection, texts: str, names: list[str], reading: Reading) -> list[str]:
    """Put the reports in these files into the tables; the names of the profiles, which hold no report."""
    quoted = ["".join(f"[{sign}]" if sign in PATTERN else sign for sign in name) for name in names]
    try:
        if texts is BLOBS:  # DuckDB reads each file as a chunk, and taking JSON apart costs 4 ms a chunk
            store.execute(f"CREATE OR REPLACE TEMP TABLE blobs AS {BLOBS}", [quoted])
            store.execute(TELL.replace("FROM texts", "FROM blobs"))
        else:
            store.execute(TELL.replace("FROM texts", f"FROM ({texts})"), [quoted])
    except duckdb.Error as problem:  # one that has vanished fails all
        if len(names) == 1:
            reading.refused.append(RefusedFile(names[0], reason(problem)))
            return []
        half = len(names) // 2
        return [name for some in (names[:half], names[half:]) for name in _tell(store, texts, some, reading)]
    silent = store.execute("SELECT unnest(?) EXCEPT SELECT file FROM told", [names]).fetchall()
    reading.refused += [RefusedFile(name, "nothing can be read of it") for (name,) in sorted(silent)]
    return _fill(store, reading, lines=texts is LINES)


def _fill(store: duckdb.DuckDBPyConnection, reading: Reading, lines: bool = False) -> list[str]:
    """Put the rows of `told` into the tables; the names of the profiles, which hold no report."""
    for statement in FILL:
        store.execute(statement)
    told = store.execute(
        "SELECT file, why, count(*) FROM told WHERE why IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )
    others = told.fetchall()
    for file, why, count in others:
        if lines:
            said = "profiles belong into files of their own" if why == PROFILE else why
            reading.refused.append(RefusedFile(file, f"{count} of its lines: {said}"))
        elif why != PROFILE:
            reading.refused.append(RefusedFile(file, why))
    return [file for file, why, _ in others if why == PROFILE and not lines]


def _diagnose(
    store: duckdb.DuckDBPyConnection, names: list[str], diagnose: Diagnose, workers: int, reading: Reading
) -> None:
    began = time.monotonic()
    data = []
    for name in names:
        try:
            with fsspec.open(name, "rb") as file:
                data.append(file.read(LARGEST_FILE))
        except Exception as problem:  # whatever a file system's driver raises
            data.append(b"")
            reading.refused.append(RefusedFile(name, reason(problem)))
    drawn = _in_processes(data, partial(_ask, diagnose), workers)
    reports = [(name, text) for name, (text, _) in zip(names, drawn, strict=True) if text]
    reading.refused += [RefusedFile(name, why) for name, (_, why) in zip(names, drawn, strict=True) if why]
    if reports:
        columns = [list(column) for column in zip(*reports, strict=True)]
        store.execute(
            TELL.replace("FROM texts", "FROM (SELECT unnest(?) AS file, unnest(?) AS text)"), columns
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
            new = (
                "run IN (SELECT run FROM fresh)"
                if table != "files"
                else "file NOT IN (SELECT file FROM files)"
            )
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
        system, place = fsspec.core.url_to_fs(folder)
        system.makedirs(place, exist_ok=True)
        for table in TABLES:
            draft = f"{folder}/{table}.parquet.part"
            store.execute(f"COPY {table} TO {_text(draft)} (FORMAT parquet, COMPRESSION zstd)")
            system.mv(f"{place}/{table}.parquet.part", f"{place}/{table}.parquet")
    except Exception as problem:  # whatever a file system's driver raises
        raise UsageError(f"cannot write to --to-parquet {folder!r}: {reason(problem)}") from None


def _batches(names: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
