"""Explain a finding, remedy, bound, cause, metric, message or gap; without ID, list what there is."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from ..model.errors import UsageError
from .output import say

NEAREST = 3


def main(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="What to explain, as reports name it.")
    ] = None,
) -> int:
    """Explain a finding, remedy, bound, cause, metric, message or gap; without ID, list what there is."""
    from ..findings.registry import offered, pages
    from ..render.glossary import APPLY, BOUND_PAGES, CAUSES, GAPS, MESSAGES, METRICS
    from ..render.pages import list_pages, slug

    shelves = {
        "findings": pages(),
        "remedies": {name: f"for {', '.join(findings)}" for name, findings in offered().items()},
        "bounds": BOUND_PAGES,
        "causes": {name: f"{text}\n\n{_found(name)}" for name, text in CAUSES.items() if text},
        "metrics": METRICS,
        "levels of applying a remedy": APPLY,
        "messages": MESSAGES,
        "gaps": GAPS,
    }
    if id is None:
        say(list_pages(shelves))
        return 0
    asked = id.strip("[]`'\" ")
    found = _pages(shelves, asked) or _pages(shelves, slug(asked))
    if not found:
        names = [name for shelf in shelves.values() for name in shelf]
        near = difflib.get_close_matches(slug(asked), names, n=NEAREST)
        hint = f"did you mean {' or '.join(near)}?" if near else "`bdoc explain` lists what there is"
        raise UsageError(f"no page {id!r}: {hint}")
    say("\n".join(found))
    return 0


def _found(cause: str) -> str:
    """Which findings belong to a cause; some name the one that the verdict found instead."""
    from ..findings.registry import entries

    names = [entry.id for entry in entries() if entry.cause == cause]
    return f"findings: {', '.join(names)}" if names else "no finding belongs to this cause alone"


def _pages(shelves: dict[str, dict[str, str]], asked: str) -> list[str]:
    from ..findings.registry import offered
    from ..render.pages import page, remedy_page

    found = []
    for shelf, texts in shelves.items():
        if asked in texts and shelf == "remedies":
            found.append(remedy_page(asked, offered()[asked]))
        elif asked in texts:
            found.append(page(asked, texts[asked]))
    return found
