"""A report in its formats: text for terminals and pull requests, JSON for programs, charts in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing only the names of the formats loads none of it
    from collections.abc import Callable

    from ..model.code import FunctionSource, Location
    from ..model.picture import Picture
    from ..model.report import Report

DRAWN = ("html", "speedscope")  # formats with charts, written to files, not to a terminal
PRINTED = ("terminal", "markdown", "json")  # at the end of a run
FORMATS = (*PRINTED, "prompt", *DRAWN)


def render(
    report: Report,
    format: str,
    *,
    picture: Picture | None = None,
    width: int | None = None,
    color: bool = False,
    encoding: str = "utf-8",
    details: bool = False,
    profile: str = "profile.json",
    quote: Callable[[Location], FunctionSource | str] = lambda _: "no file was read",
) -> str:
    """The report in one of ``FORMATS``. JSON and pages are complete; a terminal shows the main results, and
    everything with ``details``. ``picture`` is for the formats in ``DRAWN``; for the prompt are ``profile``,
    where that is, and ``quote``, which reads the lines around a place."""
    assert format in FORMATS, f"no format {format!r}"
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(report).decode()
    if format in ("markdown", "prompt"):
        from .markdown import markdown_page, prompt

        if format == "markdown":
            return markdown_page(report, encoding)
        return prompt(report, profile, quote, encoding)
    from .compose import compose
    from .document import WHOLE, Lengths

    if format in DRAWN:
        from ..model.picture import Picture, Timeline
        from .figures.stacks import speedscope_file
        from .html import html_page

        drawn = picture or Picture(Timeline(report.run.duration_s))
        if format == "speedscope":
            return speedscope_file(report, drawn)
        return html_page(compose(report, WHOLE), report, drawn)
    from .terminal import terminal

    return terminal(compose(report, WHOLE if details else Lengths()), width, color, encoding)
