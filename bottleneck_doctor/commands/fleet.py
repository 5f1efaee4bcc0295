"""The command `bdoc fleet`: reads many reports and profiles, and answers questions over all of them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..model.errors import UsageError
from .output import Screen, StatusLine, complain, say, screen, write

if TYPE_CHECKING:
    from ..fleet.reading import Reading

FORMATS = ("terminal", "json")


def fleet_command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER...", help="Reports, profiles, folders, patterns.")
    ],
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="terminal or json.")] = "",
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file.")
    ] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Ask this instead, in DuckDB's SQL.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Slower since when; seven days before the latest run.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="ARGUMENT", help="An argument that makes no other job. Repeatable."),
    ] = None,
) -> int:
    """Answer questions over many runs: what is wasted, which remedy would save most, what got slower.

    `bdoc fleet runs/` reads every report and profile in the folder. A profile takes a third of a second, its
    report (`bdoc report --format json`) less than a millisecond.
    """
    asked = format or ("json" if output and output.lower().endswith(".json") else "terminal")
    if asked not in FORMATS:
        raise UsageError(f"--format {asked!r}: no such format, there are {', '.join(FORMATS)}")
    try:
        began = date.fromisoformat(since).isoformat() if since is not None else None
    except ValueError:
        raise UsageError(f"--since {since!r}: no date, write it like 2026-11-20") from None
    try:
        from ..fleet.questions import answer, ask
    except ImportError as problem:
        if problem.name != "duckdb":
            raise
        raise UsageError("needs duckdb: pip install 'bottleneck-doctor[fleet]'") from None
    from ..render.fleet import render_fleet, render_rows

    store, reading = _read(files)
    shown = screen(sys.stdout) if not output else Screen(100, False, "utf-8")
    if sql is None:
        fleet = answer(store, reading.refused, began, tuple(ignore or ()))
        text = render_fleet(fleet, asked, width=shown.width, color=shown.color, encoding=shown.encoding)
    else:
        heads, rows = ask(store, sql)
        text = render_rows(heads, rows, asked, width=shown.width, encoding=shown.encoding)
    if output:
        write(output, text.encode())
    else:
        say(text, shown.encoding)
    return 0


def report_of_bytes(profile: bytes) -> bytes:
    """The report of a profile, both as JSON; raises ``BadProfile``."""
    from ..findings.report import write_up
    from ..model.codec import decode_profile, encode_report

    return encode_report(replace(write_up(decode_profile(profile)), bdoc=__version__))


def _read(files: list[str]) -> tuple[Any, Reading]:
    """The tables; raises ``UsageError`` where nothing could be read."""
    from ..fleet.reading import find, open_store, read, runs_of

    found, refused = find(files)
    cores = len(os.sched_getaffinity(0))
    store = open_store(cores)
    line = StatusLine()

    def seen(reading: Reading) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            rate = f"{reading.diagnosed / reading.diagnosing_s:.1f} a second"
            line.draw(f"{reading.diagnosed} of {reading.to_diagnose} profiles diagnosed, {rate}")

    reading = read(store, found, report_of_bytes, cores, seen)
    line.clear()
    reading.refused[:0] = refused
    if not runs_of(store):
        first = reading.refused[0] if reading.refused else None
        why = f": {first.file}: {first.why}" if first else ""
        more = f", and {len(reading.refused) - 1} more" if len(reading.refused) > 1 else ""
        raise UsageError(f"no run could be read{why}{more}")
    if reading.diagnosed:
        rate = reading.diagnosed / reading.diagnosing_s
        complain(
            f"{reading.diagnosed} profiles diagnosed in {reading.diagnosing_s:.1f} s, {rate:.1f} a second"
        )
    return store, reading
