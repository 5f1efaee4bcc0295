"""One chart of a page: Plotly's own vocabulary as plain data, and how a keyboard moves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """What ``data-figure="NAME"`` shows.

    ``data`` and ``layout`` are Plotly's; colours in them are ``var(--name)`` as page.css defines them, so
    that one figure serves light, dark and print. Foreign strings in them must have gone through
    ``words.in_chart``. ``height`` is in pixels; the width is the page's. ``label`` says aloud what is drawn.
    ``moves`` is the axis that keys and buttons pan and zoom, within the range that the layout gives it; ""
    for a chart that stands still. ``sort`` names a script of the page that adds to it (``lanes``).
    """

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int
    label: str
    moves: str = ""
    sort: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
