"""The page about the report's JSON, from the types that it is made of."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass

from bottleneck_doctor.model import report
from bottleneck_doctor.model.report import Report

INTRODUCTION = """\
# Report

`bdoc report --format json` prints one object of this shape. Shares run 0 to 1, times are in seconds, and
`null` means "not measured", never zero. Within a `schema_version` fields are only ever added."""


def report_page() -> str:
    """Each object of the report once, in the order in which it is first named."""
    return "\n".join([INTRODUCTION, "", *(line for kind in _reached(Report, []) for line in _object(kind))])


def _object(kind: type) -> list[str]:
    says = inspect.cleandoc(kind.__doc__ or "")
    rows = [f"| `{item.name}` | {_linked(str(item.type))} |" for item in fields(kind)]
    return [f"## {kind.__name__}", "", says, "", "| field | type |", "|---|---|", *rows, ""]


def _reached(kind: type, known: list[type]) -> list[type]:
    known.append(kind)
    for item in fields(kind):
        for inner in _named(str(item.type)):
            if inner not in known:
                _reached(inner, known)
    return known


def _named(annotation: str) -> list[type]:
    found = [getattr(report, name, None) for name in re.findall(r"[A-Z]\w+", annotation)]
    return [kind for kind in found if isinstance(kind, type) and is_dataclass(kind)]


def _linked(annotation: str) -> str:
    text = annotation.replace("|", "\\|")
    known = {kind.__name__ for kind in _named(annotation)}
    return re.sub(r"[A-Z]\w+", lambda m: f"[{m[0]}](#{m[0].lower()})" if m[0] in known else m[0], text)
