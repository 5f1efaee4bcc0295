"""Reads files as `bdoc fleet` does, without the command line; without its extra tests are skipped."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")

import duckdb

from bottleneck_doctor.commands.fleet import report_of_bytes
from bottleneck_doctor.fleet.questions import answer
from bottleneck_doctor.fleet.reading import Reading, find, open_store, read
from bottleneck_doctor.model.report import Fleet


def taken(*paths: str | Path) -> tuple[duckdb.DuckDBPyConnection, Reading]:
    """A store with all that these files tell, and what became of them."""
    files, refused = find(map(str, paths))
    store = open_store(2)
    reading = read(store, files, report_of_bytes, 2)
    reading.refused[:0] = refused
    return store, reading


def asked(*paths: str | Path, **how: Any) -> Fleet:
    """What the fleet in these files answers."""
    store, reading = taken(*paths)
    return answer(store, reading.refused, **how)
