"""What a terminal shows: the report (verdict, budget, evidence, remedies, what is not known), what can be
measured here, and the pages of ``bdoc explain``."""

from __future__ import annotations

import inspect
import io
import re
import textwrap
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..model.diagnosis import Proposal
from ..model.instruments import Capability
from . import words
from .document import Document, FindingBlock, Hottest, RemedyBlock
from .glossary import APPLY, EFFORTS
from .words import capital

WIDEST = 100
DEFAULT_WIDTH = 80
NARROWEST = 20


class Sheet:
    """Lines of styled text, wrapped at ``width`` and representable in ``encoding``."""

    def __init__(self, width: int | None, color: bool, encoding: str) -> None:
        self.width = max(NARROWEST, min(width or DEFAULT_WIDTH, WIDEST))
        self.encoding = encoding
        self._file = io.StringIO()
        self._console = Console(  # prints styled text unchanged, whatever the user's settings are
            file=self._file, width=self.width, _environ={},
            color_system="standard" if color else None, force_terminal=color, no_color=not color,
            highlight=False, markup=False, emoji=False, legacy_windows=False,
            force_jupyter=False,  # in a notebook it would display the text by itself
        )  # fmt: skip

    def line(
        self, *spans: str | tuple[str, str], indent: int = 0, lead: str = "", lead_style: str = ""
    ) -> None:
        """One paragraph; what wraps stays under the text, not under its ``lead``."""
        body = Text.assemble(*map(self._span, spans), overflow="fold")
        if not body.plain.strip():
            return
        if not indent and not lead:
            self._console.print(body)
            return
        grid = Table.grid(padding=0)
        grid.add_column(width=indent + cell_len(lead), no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(" " * indent + self.fit(lead), style=lead_style), body)
        self._console.print(grid)

    def verbatim(self, text: str, style: str = "") -> None:
        """One line that is never wrapped, for what is copied from the screen."""
        shown = Text(self.fit(text), style=style, overflow="ignore", no_wrap=True)
        self._console.print(shown, soft_wrap=True)

    def heading(self, *spans: str | tuple[str, str]) -> None:
        """A section starts after an empty line."""
        self._console.print()
        self.line(*spans)

    def fit(self, text: str) -> str:
        """The text with characters that the encoding lacks replaced."""
        return words.fit(text, self.encoding)

    def drawn(self) -> str:
        """Everything so far. Trailing blanks are removed, as files and diffs would keep them."""
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines()) + "\n"

    def _span(self, span: str | tuple[str, str]) -> tuple[str, str]:
        text, style = (span, "") if isinstance(span, str) else span
        return self.fit(text), style


LONGEST_NAME = 40
FIRST_COLUMNS = 22  # two numbers and the blanks about them


def _table(sheet: Sheet, title: str, hottest: Hottest, heads: tuple[str, str, str]) -> None:
    if not hottest.rows:
        return
    sheet.heading((title, "bold"), (f"  {hottest.taken}", "dim"))
    room = max(0, sheet.width - FIRST_COLUMNS - 4)
    longest = min(LONGEST_NAME, room, max(cell_len(sheet.fit(row.name)) for row in hottest.rows))
    sheet.line((f"{heads[0]:>6} {heads[1]:>9}{heads[2]}", "dim"), indent=2)
    for row in hottest.rows:
        name = sheet.fit(row.name)
        name = set_cell_size(name, longest) if cell_len(name) < longest else name
        state, lead = f"  {row.state}" if row.state else "", f"{row.own:>6} {row.second:>9}  "
        sheet.line(f"{name}  ", (row.place, "dim"), state, indent=2, lead=lead)


def _pairs(sheet: Sheet, title: str, pairs: list[tuple[str, str]]) -> None:
    if not pairs:
        return
    sheet.heading((title, "bold"))
    longest = min(LONGEST_NAME, max(cell_len(name) for name, _ in pairs))
    for name, value in pairs:
        sheet.line(value, indent=2, lead=f"{sheet.fit(name):<{longest}}  ", lead_style="dim")


WHOSE = "  of the function; its line seen most"
SETTINGS, BOUNDS = "settings worth a try", "not predicted, only bounded"
DOUBTS = "predicted, but may gain nothing"
LONGEST_BAR, LONGEST_PART = 30, 48
LABEL, NUMBER = 28, 9
OWN_NAME = re.compile(r"(?<![\w./$\"'])[A-Z][A-Z_]{2,}\b(?!=)")  # a stand-in in a snippet
COLOURS = {"balanced": "green", "inconclusive": "cyan"}


def terminal(document: Document, width: int | None, color: bool, encoding: str) -> str:
    """The document drawn for a terminal, or for a pipe when ``color`` is off; of a run that failed its head,
    unless all was asked for."""
    sheet = Sheet(width, color, encoding)
    facts = [one for one in document.circumstances if not (document.failed and one.startswith("ended with"))]
    sheet.line(("bdoc ", "bold"), document.command, (" · ".join(["", *facts]), "dim"))
    for line in document.failed:
        sheet.line((line, "bold red"))
    _verdict(sheet, document)
    if document.failed and not document.metrics:
        return sheet.drawn()
    _budget(sheet, document)
    _device(sheet, document)
    if document.ledger:
        parts = " · ".join(f"{bar.part} {bar.percent}" for bar in document.ledger)
        sheet.line(("where the run goes: ", "bold"), parts)
    _why(sheet, document.findings, document.more_findings)
    _remedies(sheet, document)
    _table(sheet, "where Python was seen", document.functions, ("own", "total", WHOSE))
    _table(sheet, "where in libraries", document.libraries, ("own", "total", WHOSE))
    _table(sheet, "operators", document.operators, ("own", "time", ""))
    _pairs(sheet, "environment", document.environment)
    _pairs(sheet, "metrics", [(row.name, words.within(row.value, row.interval)) for row in document.metrics])
    gaps, rest = "; ".join(document.gaps), (_rest(document.more_gaps, "bdoc env"), "dim")
    sheet.heading(("not measured: ", "bold") if gaps else "", gaps, rest)
    sheet.line((document.watching, "dim"))
    return sheet.drawn()


def _verdict(sheet: Sheet, document: Document) -> None:
    colour = COLOURS.get(document.headline, "yellow")
    head = document.head
    sheet.heading((document.headline, f"bold {colour}"), (f": {head.claim}", "bold"))
    sheet.line(head.why)
    sheet.line((head.first, "bold"), (head.promise, "dim" if head.ceiling else "bold green"))
    sheet.line((" · ".join(document.grounds), "dim"), indent=2)
    for phase in document.phases:
        sheet.line(phase, indent=2, lead="• ")


def _budget(sheet: Sheet, document: Document) -> None:
    if not document.bars:
        return
    sheet.heading((f"where {document.one_step} goes", "bold"), (f"  {document.step}", "dim"))
    part = min(sheet.width - 24, LONGEST_PART, max(cell_len(bar.part) for bar in document.bars))
    room = max(0, min(LONGEST_BAR, sheet.width - part - 24))
    for bar in document.bars:
        name = set_cell_size(sheet.fit(bar.part), part)
        drawn, mark = words.bar(bar.share, room), " ◀" if bar.culprit else ""
        sheet.line(f"{name} {bar.percent:>6} {bar.time:>9}  ", (drawn, "cyan"), (mark, "yellow"), indent=2)


def _device(sheet: Sheet, document: Document) -> None:
    """Labels and numbers, two pairs in a line where they have room."""
    if not document.device_rows:
        return
    sheet.heading((document.device, "bold"))
    pairs = [(f"{label:<{LABEL}}", f"{value:<{NUMBER}}") for label, value in document.device_rows]
    columns = 2 if sheet.width >= 2 * (LABEL + NUMBER) + 4 else 1
    short = [one for one in pairs if len("".join(one)) == LABEL + NUMBER]
    for place in range(0, len(short), columns):
        spans = [span for label, value in short[place : place + columns] for span in ((label, "dim"), value)]
        sheet.line(*spans, indent=2)
    for label, value in (one for one in pairs if one not in short):
        sheet.line((f"{label.rstrip()}  ", "dim"), value.rstrip(), indent=2)


def _why(sheet: Sheet, findings: list[FindingBlock], more: int) -> None:
    if not findings:
        return
    sheet.heading(("why", "bold"), (_rest(more), "dim"))
    for finding in findings:
        sheet.line(finding.id, (f"  {finding.place}", "dim"), indent=2)
        for point in finding.points:
            source = point.source or point.metric
            number, text = (f"{point.number}  ", "bold") if point.number else "", point.text
            sheet.line(number, text, (f" ({source})" if source else "", "dim"), indent=4, lead="• ")


def _remedies(sheet: Sheet, document: Document) -> None:
    if document.remedies:
        lines = [line for block in document.remedies for line in block.snippet]
        own = "; CAPITALS: your names" if any(map(OWN_NAME.search, lines)) else ""
        sheet.heading(
            ("what to change", "bold"), (f"  best first{own}{_rest(document.more_remedies)}", "dim")
        )
    group = ""  # of the entry above; the first may be a bound without a heading
    for rank, block in enumerate(document.remedies, start=1):
        kind = SETTINGS if block.setting else BOUNDS * (rank > 1) if block.ceiling else DOUBTS * bool(group)
        sheet.line((kind * (kind != group), "dim"), indent=2)
        group = kind
        _remedy(sheet, rank, block)
    sheet.line((document.together, "bold green"), indent=2)
    if document.warnings and not document.remedies:
        sheet.heading(("what not to change", "bold"))
    for block in document.warnings:
        hurt, basis = (f"  {block.likely}", "bold red"), (f" ({block.basis})", "dim")
        sheet.line("would hurt: ", block.title, hurt, basis, indent=2, lead="! ")


def _remedy(sheet: Sheet, rank: int, block: RemedyBlock) -> None:
    """Three lines, and the snippet where it is long and was left in."""
    expected = (f"  {block.likely}", "dim" if block.ceiling else "bold green")
    basis = (f" ({block.basis})", "dim")
    sheet.line((block.title, "bold"), expected, basis, indent=2, lead=f"{rank}. ")
    inline = block.snippet[0] if len(block.snippet) == 1 else block.text
    sheet.line((f"{block.place}  " if block.place else "", "cyan"), inline, indent=5)
    for line in block.snippet if len(block.snippet) > 1 else []:
        sheet.verbatim(f"{' ' * 7}{line}")
    terms = [
        block.id,
        "alternative to those above" if block.alternative else "",
        f"effort: {block.effort}" if block.effort else "",
        f"risk: {block.risk}" if block.risk else "",
    ]
    sheet.line((" · ".join(filter(None, terms)), "dim"), indent=5)


def _rest(more: int, where: str = "bdoc report --details") -> str:
    return f"; {more} more: {where}" if more else ""


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


def list_pages(texts: Mapping[str, str], width: int) -> str:
    """Every id of a shelf with the first sentence of its page."""
    widest = max(map(len, texts), default=0)
    lines = []
    for name, text in sorted(texts.items()):
        paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
        sentence = re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0].rstrip(".:;")
        lines += _wrapped(f"{name.ljust(widest)}  ", sentence, width)
    return "".join(f"{line}\n" for line in lines)


def index_of(
    topics: Mapping[str, Sequence[str]], shelves: Mapping[str, Mapping[str, str]], width: int
) -> str:
    """What there are pages on: the findings' ids by topic, and how many ids the other shelves hold."""
    lines = ["`bdoc explain ID` prints a page. Findings by topic:"]
    for topic, ids in topics.items():
        lines += _wrapped(f"{topic}: ", ", ".join(ids), width, 2)
    counts = ", ".join(f"{len(texts)} {shelf}" for shelf, texts in shelves.items())
    lines += _wrapped("more with `bdoc explain SHELF`: ", counts, width, 2)
    lines += _wrapped("also: ", "num_workers, pin_memory, data wait, DALI, AMP, torch.compile ...", width, 2)
    return "".join(f"{line}\n" for line in lines)


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


def _wrapped(lead: str, text: str, width: int = WIDTH, inset: int | None = None) -> list[str]:
    later = " " * (len(lead) if inset is None else inset)
    return textwrap.wrap(text, width, initial_indent=lead, subsequent_indent=later, break_on_hyphens=False)


def slug(text: str) -> str:
    """An id as people may write it: ``python stacks (py-spy)`` is ``python-stacks-py-spy``."""
    return "-".join(re.findall(r"[a-z0-9_.~]+", text.lower()))
