"""The report as one page that opens anywhere: the same words as in markdown, with charts between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..model.picture import Lanes, Mark, Picture, Timeline
from ..model.report import Report
from . import words
from .document import Document
from .figures.axes import Figure
from .figures.lanes import lanes_figure, legend
from .figures.numbers import Table, flat_told, lanes_table, marks_told, staircase_table, timeline_table
from .figures.staircase import staircase_figure
from .figures.timeline import timeline_figure
from .glossary import APPLY
from .page.shell import page, templates

# The colours of the parts of a step, by the pieces of the loop that they are made of.
PARTS = {
    "data wait": "wait",
    "forward and own code": "compute",
    "forward": "compute",
    "loss": "compute",
    "backward": "backward",
    "optimizer": "optimizer",
    "transfer": "copy",
    "checkpoint": "checkpoint",
    "logging": "logging",
    "garbage collection": "collect",
    "waiting for other ranks": "exchange",
    "device busy": "compute",
    "busy, or short of work": "compute",
    "idle: data wait": "wait",
    "idle: launching": "queue",
    "idle: after readbacks": "sync",
    "idle: transfer": "copy",
    "idle: allocator": "collect",
    "idle: other ranks": "exchange",
    "idle: saving, logging": "logging",
    # And of the parts of the run.
    "launching": "queue",
    "start-up and imports": "copy",
    "starting workers": "wait",
    "stopping workers": "wait",
    "warm-up": "optimizer",
    "training steps": "compute",
    "evaluation": "exchange",
    "checkpoints": "checkpoint",
    "end of epochs": "logging",
    "shut-down": "collect",
}
TYPICAL = 0.05  # how far the data wait of some steps may be from all steps', in shares
LONGEST_TITLE = 80


@dataclass(frozen=True)
class PageContext:
    """What the page's template is given beside the document."""

    figures: dict[str, Figure] = field(default_factory=dict)
    timeline: Table | None = None
    flat: str = ""
    marks: list[str] = field(default_factory=list)
    lanes: Table | None = None
    lanes_said: str = ""
    legend: list[tuple[str, list[tuple[str, str, float]]]] = field(default_factory=list)
    stairs: Table | None = None
    own: dict[str, list[float]] = field(default_factory=dict)


def html_page(document: Document, report: Report, picture: Picture | None) -> str:
    """The document as one self-contained HTML page, with what can be drawn of the run."""
    shown = show(report, picture)
    title = words.short(f"{document.headline}: {document.command}", LONGEST_TITLE)
    return page(f"{title} · bdoc", html_body(document, shown), shown.figures)


def html_body(document: Document, shown: PageContext) -> str:
    """What stands in the page, every string of it escaped."""
    template = templates().get_template("report.html.j2")
    return template.render(
        document=document, shown=shown, part_color=_part_color, apply=APPLY, capital=words.capital
    )


def show(report: Report, picture: Picture | None) -> PageContext:
    """The figures that there are, and their numbers as tables."""
    lanes = picture.lanes if picture and picture.lanes and _has_length(picture.lanes) else None
    timeline = timeline_figure(_with_lanes(picture.timeline, lanes)) if picture else None
    stairs = staircase_figure(report.remedies)
    drawn = {"staircase": stairs, "timeline": timeline, "lanes": lanes_figure(lanes) if lanes else None}
    return PageContext(
        {name: figure for name, figure in drawn.items() if figure is not None},
        timeline_table(picture.timeline) if picture and timeline else None,
        flat_told(picture.timeline) if picture else "",
        marks_told(picture.timeline.marks) if picture else [],
        lanes_table(lanes) if lanes else None,
        lanes_words(lanes, report) if lanes else "",
        legend(lanes) if lanes else [],
        staircase_table(report.remedies) if stairs else None,
        {
            "functions": [one.own_share for one in report.functions if one.users],
            "libraries": [one.own_share for one in report.functions if not one.users],
            "operators": [one.share for one in report.operators],
        },
    )


def _has_length(lanes: Lanes) -> bool:
    return (words.drawn(lanes.end_s - lanes.begin_s) or 0.0) > 0


def _with_lanes(timeline: Timeline, lanes: Lanes | None) -> Timeline:
    """The timeline, in which one sees where the steps are that the lanes draw."""
    if lanes is None:
        return timeline
    return replace(
        timeline, marks=[*timeline.marks, Mark("lanes", lanes.begin_s, lanes.end_s, "drawn below")]
    )


def lanes_words(lanes: Lanes, report: Report) -> str:
    """How many steps are drawn, and whether they wait as all steps do."""
    length = words.seconds(lanes.end_s - lanes.begin_s)
    said = (
        f"{words.counted(lanes.steps, 'consecutive step')}, {length} of the run. "
        f"In these the loop waited for batches {words.percent(lanes.wait_share)} of the time"
    )
    metric = report.metrics.get("data_wait_fraction")
    if metric is None or metric.value is None:
        return f"{said}."
    alike = abs(lanes.wait_share - metric.value) <= TYPICAL
    whole = words.percent(metric.value)
    return (
        f"{said}, over all steady steps {whole}: "
        f"these steps are {'typical' if alike else 'not typical, read them with care'}."
    )


def _part_color(part: str) -> str:
    return f"var(--{PARTS.get(part, 'unseen')})"
