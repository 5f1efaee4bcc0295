"""The report as one self-contained page: the texts of markdown, with charts and tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..model.picture import Mark, Picture, RankMap, Timeline
from ..model.report import Report
from . import words
from .compose import ROLES
from .document import Document
from .figures import Figure
from .figures.stacks import stacks_figure, stacks_table
from .figures.timeline import curve_words, mark_words, plot_words, ranks_figure, timeline_figure, unit_of
from .head import bound_of, kinds_of
from .page import page, templates

# The colours of the parts of a step; page.css names them.
PARTS = {
    "data wait": "wait", "device busy": "compute", "forward and its pauses": "compute",
    "backward": "backward", "backward and its pauses": "backward",
    "optimizer": "optimizer", "optimizer and its pauses": "optimizer", "zero_grad": "optimizer",
    "transfer": "copy", "checkpoint": "checkpoint", "logging": "logging",
    "saving, logging": "logging", "garbage collection": "collect", "waiting for other ranks": "exchange",
    "communication": "exchange", "copies": "copy", "launching": "launch", "after readbacks": "sync",
    "allocator": "allocator", "model": "compute",  # its other parts
}  # fmt: skip
LONGEST_TITLE = 80
TENTHS = 10  # of the run; the table shows the mean of each
MOST_MARKS = 40


@dataclass(frozen=True)
class Table:
    """Rows of texts under their heads; the first column names the row."""

    heads: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class PageContext:
    """The template's variables other than the document; without ``charts`` it shows no place for any."""

    figures: dict[str, Figure] = field(default_factory=dict)
    timeline: Table | None = None
    marks: list[str] = field(default_factory=list)
    ranks: Table | None = None
    ranks_text: str = ""
    stacks: dict[str, tuple[str, Table]] = field(default_factory=dict)  # figure: title and table
    charts: bool = True


def html_page(document: Document, report: Report, picture: Picture | None) -> str:
    """The document as one self-contained HTML page, with what can be drawn of the run. Without a ``picture``
    it has no charts, which take a library of 1.2 MB, and is small enough to be kept in a notebook."""
    shown = show(report, picture) if picture is not None else PageContext(charts=False)
    title = words.short(f"{document.headline}: {document.command}", LONGEST_TITLE)
    return page(f"{title} · bdoc", html_body(document, shown), shown.figures)


def html_body(document: Document, shown: PageContext) -> str:
    """The body of the page, every string of it escaped."""
    template = templates().get_template("report.html.j2")
    return template.render(document=document, shown=shown, color=color_of, capital=words.capital)


def color_of(part: str) -> str:
    """The colour of a part of the step: that of its kind, of the user's own code, or none of its own."""
    kinds = kinds_of(part)
    other = "cpu" if "code" in kinds and not part.startswith("code of ") else "unseen"  # a framework's
    return f"var(--{next((color for kind, color in PARTS.items() if kind in kinds), other)})"


def show(report: Report, picture: Picture) -> PageContext:
    """The figures that there are, and their numbers as tables."""
    phases = {one.label: f"{one.label}: {bound_of(report, one.verdict)}" for one in report.phases}
    marks = [replace(one, label=phases.get(one.label, one.label)) for one in picture.timeline.marks]
    ranks, time = picture.ranks, replace(picture.timeline, marks=marks)
    roles = {f"stacks-{one.role}": one for one in picture.stacks if one.paths}
    drawn = {
        **{name: stacks_figure(one, report.run.cwd) for name, one in roles.items()},
        "timeline": timeline_figure(time),
        "ranks": ranks_figure(ranks) if ranks else None,
    }
    return PageContext(
        {name: figure for name, figure in drawn.items() if figure is not None},
        timeline_table(time) if drawn["timeline"] else None,
        mark_lines(marks),
        ranks_table(ranks) if ranks else None,
        ranks_words(ranks) if ranks else "",
        {
            name: (
                words.capital(ROLES.get(one.role, words.plain(one.role))),
                Table(["function", "place", "share", "on a CPU"], stacks_table(one, report.run.cwd)),
            )
            for name, one in roles.items()
        },
    )


def timeline_table(timeline: Timeline) -> Table:
    """The mean of each curve in each tenth of the run, by the points that are drawn."""
    part_s = (words.drawn(timeline.duration_s) or 0.0) / TENTHS
    heads = [f"from {words.seconds(part_s * part)}" for part in range(TENTHS)]
    rows = []
    for curve in timeline.curves:
        sums, counts = [0.0] * TENTHS, [0] * TENTHS
        for t, value in zip(curve.t, curve.value, strict=True):
            if words.drawn(value) is None or value is None or words.drawn(t) is None:
                continue
            part = min(TENTHS - 1, max(0, int(t / part_s))) if part_s > 0 else 0
            sums[part] += value
            counts[part] += 1
        if any(counts):
            means = zip(sums, counts, strict=True)
            cells = [words.quantity(curve.name, total / count) if count else "" for total, count in means]
            names = [plot_words((curve.group, unit_of(curve.name))), curve_words(curve)]
            rows.append([": ".join(filter(None, names)), *cells])
    return Table(["", *heads], rows)


def mark_lines(marks: list[Mark]) -> list[str]:
    """A text for each of the first marks; the rest is counted."""
    text = [mark_words(mark) for mark in marks[:MOST_MARKS]]
    rest = len(marks) - len(text)
    return [*text, f"{words.counted(rest, 'more stretch', 'more stretches')}"] if rest else text


def ranks_words(ranks: RankMap) -> str:
    """What is drawn, and what is not."""
    text = "Time outside of exchanges, over the median rank's in the same steps: all wait for who is late"
    if any(one is None for row in ranks.ratio for one in row):
        text += ". Gaps: steps that were set aside"
    if ranks.left_out:
        text += f". {words.counted(ranks.left_out, 'more rank')} nearer to the median"
    return f"{text}."


def ranks_table(ranks: RankMap) -> Table:
    """The mean and the worst of each row."""
    rows = []
    for name, ratios in zip(ranks.names, ranks.ratio, strict=True):
        known = [one for one in ratios if one is not None and words.drawn(one) is not None]
        mean = sum(known) / len(known) if known else None
        rows.append([words.plain(name), words.ratio(mean), words.ratio(max(known, default=None))])
    return Table(["rank", "mean", "longest"], rows)
