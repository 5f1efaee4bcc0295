"""What a run that goes on writes for its watchers, as bytes; and None for bytes that are no such thing."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .live import Announcement, Ending, Handover

T = TypeVar("T", Announcement, Ending, Handover)


def encode(value: Announcement | Ending | Handover) -> bytes:
    """As msgpack where that is much, as JSON where a person may look into it."""
    write = msgspec.msgpack.encode if isinstance(value, Handover) else msgspec.json.encode
    try:
        return write(value)
    except UnicodeEncodeError:  # a path that is no Unicode
        return write(_sayable(msgspec.to_builtins(value)))


def decode(data: bytes, kind: type[T]) -> T | None:
    """The value, or None: the file may be cut, empty, or of another version."""
    try:
        if kind is Handover:
            return msgspec.msgpack.decode(data, type=kind)
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_sayable(key): _sayable(item) for key, item in value.items()}
    return [_sayable(item) for item in value] if isinstance(value, (list, tuple)) else value
