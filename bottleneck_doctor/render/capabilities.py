"""The table of ``bdoc env``: what can be measured here, what cannot, why, and how to allow it."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.instruments import Capability
from . import words
from .sheet import Sheet


def capabilities_text(capabilities: Sequence[Capability], width: int, color: bool, encoding: str) -> str:
    """One entry per capability; what is missing comes with the command that allows it."""
    sheet = Sheet(width, color, encoding)
    for capability in capabilities:
        sign, style = ("yes", "green") if capability.available else ("no ", "yellow")
        name, detail = words.plain(capability.name), words.plain(capability.detail)
        sheet.line((name, "bold"), f": {detail}" if detail else "", lead=f"{sign}  ", lead_style=style)
        if capability.do:
            sheet.line(("to allow it: ", "dim"), words.plain(capability.do), indent=5)
    missing = sum(not capability.available for capability in capabilities)
    sheet.heading(f"{len(capabilities) - missing} of {len(capabilities)} can be measured here")
    return sheet.drawn()
