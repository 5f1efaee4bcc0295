"""A report as text: for a terminal, as markdown, as JSON."""

from __future__ import annotations

from ..model.report import Report

FORMATS = ("terminal", "markdown", "json")
DEFAULT_WIDTH = 80


def render(
    report: Report,
    format: str,
    *,
    width: int | None = None,
    color: bool = False,
    encoding: str = "utf-8",
    details: bool = False,
) -> str:
    """The report in one of ``FORMATS``. JSON and markdown are whole; a terminal's screen says what matters
    first, and everything with ``details``."""
    assert format in FORMATS, f"no format {format!r}"
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(report).decode()
    from .compose import compose
    from .document import WHOLE, Lengths

    if format == "markdown":
        from .markdown import markdown_page

        return markdown_page(compose(report, WHOLE), encoding)
    from .terminal import terminal

    return terminal(compose(report, WHOLE if details else Lengths()), width or DEFAULT_WIDTH, color, encoding)
