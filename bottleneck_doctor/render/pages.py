"""The pages of ``bdoc explain``, and their list."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping


def list_pages(shelves: Mapping[str, Mapping[str, str]]) -> str:
    """Every id with the first line of its page, shelf by shelf."""
    lines: list[str] = []
    for shelf, texts in shelves.items():
        widest = max((len(name) for name in texts), default=0)
        lines += [shelf, *(f"  {name.ljust(widest)}  {_summary(texts[name])}" for name in sorted(texts)), ""]
    return "\n".join(lines)


def page(name: str, text: str) -> str:
    """One page: its id, then what the shelf says."""
    return f"{name}\n\n{inspect.cleandoc(text)}\n"


def pages_about(remedy: str, findings: Mapping[str, str]) -> list[str]:
    """The pages of the findings that speak of a remedy: remedies have no pages of their own."""
    named = re.compile(rf"(?<![\w-]){re.escape(remedy)}(?![\w-])")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", remedy):
        return []
    return [page(name, text) for name, text in sorted(findings.items()) if named.search(text)]


def _summary(text: str) -> str:
    """The first sentence, or what of it stands on the first line."""
    first = inspect.cleandoc(text).partition("\n")[0]
    return re.split(r"(?<=[.:;]) ", first)[0].rstrip(".:;")
