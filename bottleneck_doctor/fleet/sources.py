"""Finds the files of a fleet: names, folders and patterns, here or wherever fsspec reaches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import fsspec

from ..model.fleet import RefusedFile

LINES = (".ndjson", ".jsonl")
RUNS_FILE = "runs.parquet"  # a folder that holds it is a fleet's, written by --to-parquet
PATTERN = "*?["


@dataclass(frozen=True)
class Source:
    """One file, by a name under which DuckDB and fsspec know it. ``modified`` changes when the file does.

    ``kind``: "json" (one report or profile), "lines" (a report in each line), "tables" (a fleet's folder).
    """

    name: str
    size: int
    modified: str
    kind: str


def find(
    paths: Iterable[str], beside: Iterable[str] = ()
) -> tuple[list[Source], list[RefusedFile], list[Any]]:
    """The files, each once; those that cannot be read; the file systems that are not this machine's, also of
    the paths in ``beside``."""
    found: dict[str, Source] = {}
    refused: list[RefusedFile] = []
    remote: dict[str, Any] = {}
    looked = [*((path, True) for path in paths), *((path, False) for path in beside)]
    for path, wanted in looked:
        try:
            system, place = fsspec.core.url_to_fs(path)
            local = "file" in _protocols(system)
            if not local:
                remote[_protocols(system)[0]] = system
            if not wanted:
                continue
            files = [_source(system, info, local) for info in _listed(system, place)]
        except Exception as problem:  # whatever a file system's driver raises
            refused.append(RefusedFile(path, reason(problem)))
            continue
        if not files:
            refused.append(RefusedFile(path, "no report, profile or fleet's folder is there"))
        for one in files:
            if one.name.isprintable():
                found.setdefault(one.name, one)
            else:
                refused.append(RefusedFile(one.name, "its name cannot be printed"))
    return list(found.values()), refused, list(remote.values())


def is_fleet(folder: str) -> bool:
    """Whether a fleet's tables lie there already."""
    try:
        system, place = fsspec.core.url_to_fs(folder)
        return bool(system.isfile(f"{place}/{RUNS_FILE}"))
    except Exception:  # whatever a file system's driver raises; writing there will say it
        return False


def _listed(system: Any, place: str) -> list[dict[str, Any]]:
    """What fsspec knows of each file: one that was named, whatever it is called; of a folder's by ending."""
    if system.isfile(place):
        return [system.info(place)]
    if not system.isdir(place) and any(sign in place for sign in PATTERN):
        matches = system.glob(place, detail=True).values()
        return [
            info
            for match in matches
            for info in ([match] if match["type"] == "file" else _listed(system, match["name"]))
        ]
    inside = system.find(place, detail=True).values()
    if not inside and not system.isdir(place):
        raise FileNotFoundError
    return [info for info in inside if str(info["name"]).endswith((".json", *LINES, f"/{RUNS_FILE}"))]


def _source(system: Any, info: dict[str, Any], local: bool) -> Source:
    name = str(info["name"]) if local else str(system.unstrip_protocol(info["name"]))
    kind = "lines" if name.endswith(LINES) else "tables" if name.endswith(f"/{RUNS_FILE}") else "json"
    changed = next((info[key] for key in ("mtime", "LastModified", "updated", "created") if key in info), "")
    return Source(name, int(info.get("size") or 0), str(changed), kind)


def _protocols(system: Any) -> tuple[str, ...]:
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)


def reason(problem: Exception) -> str:
    """The first line of what a file system's driver or DuckDB says of a failure."""
    if isinstance(problem, FileNotFoundError):
        return "no such file or folder"
    said = getattr(problem, "strerror", None) or str(problem).strip() or type(problem).__name__
    return " ".join(str(said).splitlines()[0].split())
