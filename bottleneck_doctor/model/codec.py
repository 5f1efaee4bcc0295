"""Encodes profiles, reports and the state of a running job, and validates them when they are decoded."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import msgspec

from .errors import BadProfile as BadProfile
from .loops import GAPS, StepTable
from .profile import SCHEMA, SCHEMA_VERSION, Profile
from .proof import Plan, Proof
from .report import Fleet, Report
from .run import Announcement, Ending, Order, Snapshot

LARGEST_FILE = 64 * 1024 * 1024
# A sum over a million of these is still finite, and still fits a C long.
LARGEST_NUMBER = 2**62
# Everything else in a profile is a duration, a size or a count. Instants may precede the run's
# start by a clock tick; sensors may read below zero; a launcher's worker or rank may be -1.
MAY_BE_NEGATIVE = frozenset(
    {"t", "started_s", "start_s", "end_s", "values", "exit_status", "worker", "rank", "thread"}
)
Made = TypeVar("Made")
Live = TypeVar("Live", Announcement, Ending, Snapshot)
AGAIN = "run `bdoc run` again to get a new one"


class _ProfileHeader(msgspec.Struct):
    schema: Any = None
    schema_version: Any = None
    outside: Any = None


_HEAD = msgspec.json.Decoder(_ProfileHeader)
_PROFILE = msgspec.json.Decoder(Profile)


def encode_profile(profile: Profile) -> bytes:
    """The profile as compact JSON; raises ``BadProfile`` rather than write what it would not read back."""
    _check(profile, "", "")
    return _encoded(profile, msgspec.json.encode)


def encode_order(order: Order) -> bytes:
    """What a trial asks of the agent, as JSON that it reads with the standard library."""
    return msgspec.json.encode(order)


def read_order(path: str) -> Order:
    """A trial's order; raises ``BadProfile`` with one line that names the file."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(LARGEST_FILE), type=Order)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise BadProfile(f"no order for a trial in {_quoted(path)}: {problem}") from None


def read_foreign(text: str, kind: type[Made]) -> Made:
    """JSON of another program: fields that ``kind`` does not have are skipped. Raises ``ValueError``."""
    return msgspec.json.decode(text, type=kind)


def encode_report(value: Report | Proof | Plan | Fleet) -> bytes:
    """What a command concludes, as indented JSON in the contract's order, schema first."""
    content = msgspec.to_builtins(value)
    head = {key: content.pop(key) for key in ("schema", "schema_version")}
    data = msgspec.json.encode(_writable({**head, **content}, type(value).__name__.lower()))
    return msgspec.json.format(data, indent=2) + b"\n"


def encode_live(value: Announcement | Ending | Snapshot) -> bytes:
    """What a run publishes while it goes on: msgpack where it is large, JSON where people may read it."""
    return _encoded(value, msgspec.msgpack.encode if isinstance(value, Snapshot) else msgspec.json.encode)


def _encoded(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:  # a path that is no Unicode
        return encode(_writable(msgspec.to_builtins(value), type(value).__name__.lower()))


def decode_live(data: bytes, kind: type[Live]) -> Live | None:
    """Decode that; None if it is truncated, empty, or of another version."""
    decode = msgspec.msgpack.decode if kind is Snapshot else msgspec.json.decode
    try:
        return decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file; raises ``BadProfile`` with one line that names the file."""
    name = _quoted(os.fspath(path))
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise BadProfile(f"no profile at {name}: `bdoc run SCRIPT` writes one") from None
    except (OSError, ValueError) as problem:
        raise BadProfile(f"cannot read {name}: {getattr(problem, 'strerror', None) or problem}") from None
    try:
        return decode_profile(data)
    except BadProfile as problem:
        raise BadProfile(f"{name}: {problem}") from None


def as_type(kind: type[Made], value: Any) -> Made | None:
    """A value that an agent wrote, as the profile's type for it; None if it does not fit that type."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError):
        return None


def decode_profile(data: bytes) -> Profile:
    """The profile in these bytes; raises ``BadProfile`` with one line saying what is wrong."""
    if len(data) > LARGEST_FILE:
        raise BadProfile(f"larger than {LARGEST_FILE >> 20} MiB, which no profile of bdoc is")
    try:
        head = _HEAD.decode(data)
        _check_head(head)
        old = head.schema_version == 1 and head.outside
        profile = _of_version_1(data) if old else _PROFILE.decode(data)
    except msgspec.ValidationError as problem:
        raise BadProfile(f"not a bdoc profile: {_quoted(str(problem), '')}") from None
    except RecursionError:
        raise BadProfile("not a bdoc profile: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        why = "it ends too early" if "truncated" in str(problem) else _quoted(str(problem), "")
        raise BadProfile(f"not readable as JSON: {why if data else 'it is empty'}; {AGAIN}") from None
    _complete(profile)
    for loop in (*profile.loops, *profile.outside):
        if not loop.loader and not loop.table.gap_s:  # of a loop without a loader the analysis reads it
            loop.table.gap_s.extend([None] * len(loop.table.t))
    _check(profile, "", "")
    return profile


# Columns of a loop without a loader that version 1 lacked, or wrote as null.
_ZERO = "epoch wait_s checkpoint_s logging_s collect_s copy_s".split()


def _of_version_1(data: bytes) -> Profile:
    """Its loops without a loader had the columns of their table as fields."""
    content = msgspec.json.decode(data)
    names = {item.name for item in fields(StepTable)}
    try:
        for place, old in enumerate(content["outside"]):
            table = {name: old.pop(name) for name in names & old.keys()}
            rows = len(table["t"])
            table |= {name: [cell or 0 for cell in table.get(name) or [0] * rows] for name in _ZERO}
            table["set_aside"] = [""] * rows
            known = {"steps": sum(table["steps"]), "wall_s": sum(table["wall_s"]), "wait_s": 0.0}
            backwards = {"backwards": old.pop("total")}
            loop = {"loader": "", "role": "train", "epochs": {}, "table": table, **known, **backwards, **old}
            content["outside"][place] = loop
    except (AttributeError, KeyError, TypeError):
        raise BadProfile("not a bdoc profile: a loop in `outside` lacks columns") from None
    return msgspec.convert(content, Profile)


def _complete(value: object) -> None:
    """Columns that an older bdoc did not write were not measured: fill them, where ``None`` may stand."""
    if not is_dataclass(value):
        return
    rows = getattr(value, "t", None)
    for item in fields(value):
        cells = getattr(value, item.name)
        if isinstance(rows, list) and cells == [] and "| None" in str(item.type):
            cells.extend([None] * len(rows) * (item.name not in GAPS))
        elif isinstance(cells, list) and cells and is_dataclass(cells[0]):
            for cell in cells:
                _complete(cell)
        else:
            _complete(cells)


def _check_head(head: _ProfileHeader) -> None:
    if head.schema is None:
        raise BadProfile(f"not a bdoc profile: it names no schema, expected {SCHEMA!r}")
    if head.schema != SCHEMA:
        raise BadProfile(f"not a bdoc profile: its schema is {_quoted(head.schema)}, expected {SCHEMA!r}")
    version = head.schema_version
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadProfile(f"not a bdoc profile: schema_version is {_quoted(version)}, expected a whole number")
    if version > SCHEMA_VERSION:
        raise BadProfile(
            f"written by a newer bdoc: {SCHEMA} version {_quoted(version)}, this bdoc reads up to version "
            f"{SCHEMA_VERSION}; upgrade bdoc"
        )


def _check(value: object, name: str, where: str) -> None:
    """Check every number below ``value`` against the range that its field's name implies."""
    if is_dataclass(value):
        for item in fields(value):
            _check(getattr(value, item.name), item.name, f"{where}.{item.name}" if where else item.name)
        _check_columns(value, where)
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(() if _is_sound_column(value, name) else value):
            _check(item, name, f"{where}[{at}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(item, name, f"{where}[{_quoted(key)}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadProfile(f"{where} is {value}, expected a finite number")
    elif isinstance(value, (int, float)):
        if abs(value) > LARGEST_NUMBER:
            raise BadProfile(f"{where} is beyond 2**62, larger than anything that can be measured")
        if value < 0 and name not in MAY_BE_NEGATIVE:
            raise BadProfile(f"{where} is {value}, and cannot be negative")


def _is_sound_column(cells: list[object] | tuple[object, ...], name: str) -> bool:
    """Whether all are numbers within the bounds; columns are long, so the loop runs in C."""
    numbers: list[Any] = [cell for cell in cells if cell is not None]
    if not set(map(type, numbers)) <= {int, float}:
        return False
    lowest = -LARGEST_NUMBER if name in MAY_BE_NEGATIVE else 0
    # a NaN may hide from min and max
    fits = lowest <= min(numbers, default=0) and max(numbers, default=0) <= LARGEST_NUMBER
    return fits and all(map(math.isfinite, numbers))


def _check_columns(table: Any, where: str) -> None:
    """A dataclass with a column ``t``, or ``steps``, is a table: its columns are as long as that axis."""
    rows = getattr(table, "t", getattr(table, "steps", None))
    if not isinstance(rows, list):
        return
    for item in fields(table):
        column = getattr(table, item.name)
        for key, cells in (column if item.name == "values" else {item.name: column}).items():
            unfilled = cells == [] and item.name in GAPS
            if isinstance(cells, list) and len(cells) != len(rows) and not unfilled:
                raise BadProfile(
                    f"{where}: column {_quoted(key)} has {len(cells)} rows, its time axis has {len(rows)}"
                )


def _writable(value: Any, where: str) -> Any:
    """The same plain value with every string encodable; JSON has no NaN, and null means not measured."""
    if isinstance(value, dict):
        return {_writable(k, where): _writable(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(item, where) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise BadProfile(f"{_quoted(where, '')} holds {value}, which JSON cannot say")
    return value


def fields_of(source: object, kind: type) -> dict[str, Any]:
    """What a record has of the fields of another kind, by name."""
    return {one.name: getattr(source, one.name) for one in fields(kind) if hasattr(source, one.name)}


def _quoted(value: object, quote: str = "'", longest: int = 120) -> str:
    """A short and printable form of untrusted input."""
    if isinstance(value, int) and abs(value) < 10**12:
        return str(value)
    if not isinstance(value, str):
        return "missing" if value is None else f"of type {type(value).__name__}"
    shown = value if value.isprintable() else value.encode("unicode_escape").decode()
    return f"{quote}{shown[:longest]}{'...' if len(shown) > longest else ''}{quote}"
