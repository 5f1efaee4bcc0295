"""Explain a finding, remedy, cause, metric or message; without ID, list what there is."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from ..model.refusal import UsageError
from .output import say


def main(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="What to explain, as reports name it.")
    ] = None,
) -> int:
    """Explain a finding, remedy, cause, metric or message; without ID, list what there is."""
    from ..prescribe.shelf import pages
    from ..render.glossary import CAUSES, MESSAGES, METRICS
    from ..render.pages import list_pages, page, pages_about

    causes = {name: text for name, text in CAUSES.items() if text}
    shelves = {"findings": pages(), "causes": causes, "metrics": METRICS, "messages": MESSAGES}
    if id is None:
        say(list_pages(shelves))
        return 0
    asked = id.strip("[]`'\" ")
    found = [page(asked, shelf[asked]) for shelf in shelves.values() if asked in shelf]
    found = found or pages_about(asked, shelves["findings"])
    if not found:
        near = difflib.get_close_matches(asked, [name for shelf in shelves.values() for name in shelf], n=1)
        hint = f"did you mean {near[0]}?" if near else "`bdoc explain` lists what there is"
        raise UsageError(f"no page {id!r}: {hint}")
    say("\n".join(found))
    return 0
