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
    from ..render.terminal import list_pages, page, remedy_page, slug

    shelves = {
        "findings": pages(),
        "remedies": {name: f"for {', '.join(findings)}" for name, findings in offered().items()},
        "bounds": BOUND_PAGES,
        "causes": {name: f"{text}\n\n{_of_cause(name)}" for name, text in CAUSES.items() if text},
        "metrics": METRICS,
        "levels of applying a remedy": APPLY,
        "messages": MESSAGES,
        "gaps": GAPS,
    }
    if id is None:
        say(list_pages(shelves))
        return 0
    asked = id.strip("[]`'\" ")
    for name in (asked, slug(asked)):
        found = [
            remedy_page(name, offered()[name]) if shelf == "remedies" else page(name, texts[name])
            for shelf, texts in shelves.items()
            if name in texts
        ]
        if found:
            break
    else:
        names = [name for shelf in shelves.values() for name in shelf]
        near = difflib.get_close_matches(slug(asked), names, n=NEAREST)
        hint = f"did you mean {' or '.join(near)}?" if near else "`bdoc explain` lists what there is"
        raise UsageError(f"no page {id!r}: {hint}")
    say("\n".join(found))
    return 0


def _of_cause(cause: str) -> str:
    """Which findings belong to a cause; some name the one that the verdict found instead."""
    from ..findings.registry import entries

    names = [entry.id for entry in entries() if entry.cause == cause]
    return f"findings: {', '.join(names)}" if names else "no finding belongs to this cause alone"
