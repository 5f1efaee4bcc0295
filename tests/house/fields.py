"""Pages about fields and columns, from the types and tables that they describe."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

from bottleneck_doctor import model
from bottleneck_doctor.fleet.tables import TABLES

REPORT = """\
# Report

`bdoc report --format json` prints one object of this shape. Shares run 0 to 1, times are in seconds, and
`null` means "not measured", never zero. Within a `schema_version` fields are only ever added."""
PROFILE = """\
# Profile

`profile.json` is one object of this shape. [The profile](../profile.md) explains units, tables and
versions."""
FLEET = """\
# Fleet

`bdoc fleet FILES --sql QUERY` asks these tables. Shares run 0 to 1, instants are UTC. Columns are only
ever added."""


def types_page(name: str, introduction: str) -> str:
    """The object of that name, and each that it holds, in the order in which they are first named."""
    objects = [line for kind in _reached(_types()[name], []) for line in _object(kind)]
    return "\n".join([introduction, "", *objects])


def tables_page() -> str:
    """Each table of `bdoc fleet` with its columns."""
    lines = [FLEET, ""]
    for table, columns in TABLES.items():
        rows = [f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in columns]
        lines += [f"## {table}", "", "| column | type | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


@cache
def _types() -> dict[str, type]:
    files = [
        importlib.import_module(one.name)
        for one in pkgutil.iter_modules(model.__path__, f"{model.__name__}.")
    ]
    return {name: kind for file in files for name, kind in vars(file).items() if is_dataclass(kind)}


def _object(kind: type) -> list[str]:
    rows = [f"| `{item.name}` | {_linked(str(item.type))} |" for item in fields(kind)]
    doc = inspect.cleandoc(kind.__doc__ or "")
    return [f"## {kind.__name__}", "", doc, "", "| field | type |", "|---|---|", *rows, ""]


def _reached(kind: type, known: list[type]) -> list[type]:
    known.append(kind)
    for item in fields(kind):
        for inner in _named(str(item.type)):
            if inner not in known:
                _reached(inner, known)
    return known


def _named(annotation: str) -> Iterator[type]:
    return (_types()[name] for name in re.findall(r"[A-Z]\w+", annotation) if name in _types())


def _linked(annotation: str) -> str:
    text = annotation.replace("|", "\\|")
    return re.sub(r"[A-Z]\w+", lambda m: f"[{m[0]}](#{m[0].lower()})" if m[0] in _types() else m[0], text)
