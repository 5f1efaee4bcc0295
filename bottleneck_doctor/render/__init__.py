"""A report as text: for a terminal, as markdown, as JSON, as a page."""

from __future__ import annotations

from ..model.picture import Picture
from ..model.report import Report

FORMATS = ("terminal", "markdown", "json", "html", "flamegraph", "speedscope")
DRAWN = ("html", "flamegraph", "speedscope")  # those that are given the picture, too, and go into a file
DEFAULT_WIDTH = 80


def render(
    report: Report,
    format: str,
    *,
    picture: Picture | None = None,
    width: int | None = None,
    color: bool = False,
    encoding: str = "utf-8",
    details: bool = False,
) -> str:
    """The report in one of ``FORMATS``. JSON, markdown and pages are whole; a terminal's screen says what
    matters first, and everything with ``details``. ``picture`` is for the formats in ``DRAWN``."""
    assert format in FORMATS, f"no format {format!r}"
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(report).decode()
    if format in ("flamegraph", "speedscope"):
        assert picture is not None, "these formats are nothing but the picture"
        return _stacks(report, format, picture)
    from .compose import compose
    from .document import WHOLE, Lengths

    if format == "html":
        from .html import html_page

        return html_page(compose(report, WHOLE), report, picture)
    if format == "markdown":
        from .markdown import markdown_page

        return markdown_page(compose(report, WHOLE), encoding)
    from .terminal import terminal

    return terminal(compose(report, WHOLE if details else Lengths()), width or DEFAULT_WIDTH, color, encoding)


def _stacks(report: Report, format: str, picture: Picture) -> str:
    if format == "speedscope":
        from .speedscope import speedscope_file

        return speedscope_file(report, picture)
    from .flamegraph import flamegraph_page

    return flamegraph_page(report, picture)
