"""Reads a Python file as it is: declared encoding UTF-8, line ends untouched."""

from __future__ import annotations

import codecs
import tokenize

LARGEST = 4 << 20  # bytes of one source file; more is no script


def read_source(path: str) -> str:
    """The file's text. Raises ``OSError`` where it cannot be read, ``ValueError`` where it is not UTF-8."""
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    try:
        encoding, _ = tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)
    except SyntaxError as problem:
        raise ValueError(f"its encoding is not known: {problem}") from None
    if codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig", "ascii"):
        raise ValueError(f"it is written in {encoding}, not in UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
