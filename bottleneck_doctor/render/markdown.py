"""The report as GitHub-flavoured markdown, for pull requests and job summaries."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import words
from .document import Bar, Document, Hottest, RemedyBlock
from .words import code, markdown

TEXTS = ("part", "metric", "source", "function", "operator", "what", "")


def _rows(title: str, found: Hottest, heads: tuple[str, ...]) -> str:
    if not found.rows:
        return ""
    rows: list[tuple[str, ...]] = [
        (row.own, row.second, cell(code(row.name)), cell(code(row.place)) if ":" in row.place else row.place)
        for row in found.rows
    ]
    if any(row.state for row in found.rows):
        heads = (*heads, "")
        rows = [(*cells, row.state) for cells, row in zip(rows, found.rows, strict=True)]
    return folded(title, f"{markdown(found.taken)}\n\n{table(heads, rows)}")


def folded(title: str, body: str) -> str:
    """A section that opens when asked."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: bool = True) -> str:
    """Texts to the left, ``numbers`` to the right."""
    align = ["--:" if numbers and head not in TEXTS else "---" for head in heads]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, tuple(align), *rows])


def fenced(lines: list[str], language: str) -> list[str]:
    """Lines of code between more backticks than they hold."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    marks = "`" * max(3, longest + 1)
    return [f"{marks}{language}", *lines, marks]


def cell(text: str) -> str:
    """Text that may hold the mark between cells."""
    return text.replace("|", "\\|")


def markdown_page(document: Document, encoding: str) -> str:
    """The document as one markdown page that ends in a newline."""
    step = f", {document.step}" if document.step else ""
    harms = [f"- {markdown(c.title)}: **{c.likely}** ({markdown(c.basis)})" for c in document.warnings]
    environment = [(markdown(name), markdown(value)) for name, value in document.environment]
    metrics = [
        (cell(code(row.name)), markdown(row.value), row.interval, row.n, markdown(row.source))
        for row in document.metrics
    ]
    sections = [
        _verdict(document),
        _parts(f"Where {document.one_step} goes{step}", document.bars),
        _parts("Where the run goes", document.ledger),
        _why(document),
        _remedies(document),
        "\n".join(["### Would hurt here", "", *harms]) if harms else "",
        _rows("Where Python was seen", document.functions, ("own", "with calls", "function", "")),
        _rows("Where in libraries", document.libraries, ("own", "with calls", "function", "")),
        _rows("Operators", document.operators, ("own", "time", "operator", "")),
        folded("Environment", table(("what", ""), environment)) if environment else "",
        folded("All metrics", table(("metric", "value", "90 % interval", "n", "source"), metrics))
        if metrics
        else "",
        _unknown(document),
    ]
    return words.fit("\n\n".join(part for part in sections if part) + "\n", encoding)


def _verdict(document: Document) -> str:
    head = document.head
    lines = [
        f"## {markdown(document.headline)}: {markdown(head.claim)}",
        *([markdown(head.why)] if head.why else []),
        *([f"**{markdown(head.first)}**{markdown(head.promise)}"] if head.first else []),
        markdown(" · ".join(document.grounds)),
        *([markdown(document.device)] if document.device else []),
        f"{code(document.command)} · {markdown(' · '.join(document.circumstances))}",
    ]
    if document.phases:
        lines.append("\n".join(f"- {markdown(phase)}" for phase in document.phases))
    return "\n\n".join(lines)


def _parts(title: str, bars: list[Bar]) -> str:
    rows = [(markdown(bar.part), bar.percent, bar.time) for bar in bars]
    return f"### {title}\n\n{table(('part', 'share', 'time'), rows)}" if rows else ""


def _why(document: Document) -> str:
    lines = ["### Why", ""]
    for finding in document.findings:
        place = f" ({code(finding.place)})" if finding.place else ""
        lines.append(f"- **{markdown(finding.id)}**{place}")
        for point in finding.points:
            number = f": **{point.number}**" if point.number else ""
            sources = [code(point.metric) if point.metric else "", markdown(point.source)]
            source = f" ({', '.join(filter(None, sources))})" if any(sources) else ""
            lines.append(f"  - {markdown(point.text)}{number}{source}")
    return "\n".join(lines) if document.findings else ""


def _remedies(document: Document) -> str:
    lines = ["### What to change", ""]
    for rank, block in enumerate(document.remedies, start=1):
        lines += _remedy(rank, block)
    if document.together:
        lines += ["", f"**{document.together}**"]
    return "\n".join(lines) if document.remedies else ""


def _remedy(rank: int, block: RemedyBlock) -> list[str]:
    head = f"{rank}. **{markdown(block.title)}: {block.likely}** ({markdown(block.basis)})"
    inset = " " * (len(str(rank)) + 2)
    place = f"{code(block.place)} " if block.place else ""
    effort = f"effort: {block.effort}" if block.effort else ""
    risk = f"risk: {block.risk}" if block.risk else ""
    alternative = "adds nothing to those above" if block.alternative else ""
    terms = " · ".join(markdown(term) for term in (block.apply, alternative, effort, risk) if term)
    body = [f"{place}{markdown(block.text)}".rstrip(), f"{code(block.id)} {terms}".rstrip()]
    lines = [head, *(f"{inset}<br>{line}" for line in body if line)]
    if block.snippet:
        lines += ["", *((inset + line).rstrip() for line in fenced(block.snippet, "python")), ""]
    return lines


def _unknown(document: Document) -> str:
    lines = [f"- {markdown(gap)}" for gap in document.gaps]
    if document.more_gaps:
        lines.append(f"- {document.more_gaps} more")
    section = ["### Not measured", "", *lines, ""] if lines else []
    return "\n".join([*section, f"<sub>{markdown(document.watching)}</sub>"])
