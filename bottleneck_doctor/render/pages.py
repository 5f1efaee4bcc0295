"""The pages of ``bdoc explain``, and their list."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence

from ..model.diagnosis import Proposal
from ..model.instruments import Capability
from . import words
from .glossary import APPLY, EFFORTS
from .terminal import Sheet
from .words import capital


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


WIDTH = 100


def list_pages(shelves: Mapping[str, Mapping[str, str]]) -> str:
    """Every id with the first line of its page, shelf by shelf."""
    lines: list[str] = []
    for shelf, texts in shelves.items():
        widest = max((len(name) for name in texts), default=0)
        lines.append(shelf)
        for name, text in sorted(texts.items()):
            sentence = re.split(r"(?<=[.:;]) ", inspect.cleandoc(text).partition("\n")[0])[0]
            lines.append(f"  {name.ljust(widest)}  {sentence.rstrip('.:;')}")
        lines.append("")
    return "\n".join(lines)


def page(name: str, text: str) -> str:
    """One page: its id, then what the shelf says."""
    return f"{name}\n\n{inspect.cleandoc(text)}\n"


def remedy_page(name: str, remedies: Mapping[str, Proposal]) -> str:
    """A remedy as findings declare it: who offers it, what it takes, what may go wrong, what to write."""
    lines = [name, "", *_wrapped("offered by  ", ", ".join(remedies))]
    first = next(iter(remedies.values()))
    lines += _wrapped("for example ", first.title)
    lines += _wrapped("apply       ", f"{first.apply}: {APPLY.get(first.apply, '')}")
    lines += _wrapped("effort      ", f"{first.effort}: {EFFORTS.get(first.effort, '')}")
    for risk in risks(remedies):
        lines += _wrapped("risk        ", risk)
    for text, snippet in examples(remedies):
        lines += ["", f"{capital(text)}:", "", *(f"    {line}".rstrip() for line in snippet.splitlines())]
    lines += ["", f"When the advice is wrong: `bdoc explain {next(iter(remedies))}`"]
    return "\n".join(lines) + "\n"


def risks(remedies: Mapping[str, Proposal]) -> list[str]:
    """What may go wrong, each risk once."""
    return list(dict.fromkeys(block.risk for block in remedies.values() if block.risk not in ("", "none")))


def examples(remedies: Mapping[str, Proposal]) -> list[tuple[str, str]]:
    """What to change and the lines to write; snippets that differ in their numbers alone once."""
    found: dict[str, tuple[str, str]] = {}
    for block in remedies.values():
        if block.fix.snippet.strip():
            found.setdefault(re.sub(r"\d+", "", block.fix.snippet), (block.fix.text, block.fix.snippet))
    return list(found.values())


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def slug(text: str) -> str:
    """An id as people may write it: ``python stacks (py-spy)`` is ``python-stacks-py-spy``."""
    return "-".join(re.findall(r"[a-z0-9_.~]+", text.lower()))
