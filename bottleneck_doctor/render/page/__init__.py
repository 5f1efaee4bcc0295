"""A page from its body and its charts: style, scripts and data inlined, everything else forbidden."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..figures.axes import Figure

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
SCRIPTS = ("page.js", "figures.js", "batches.js")
# What would end a script element or start a comment in one; JSON may write them as escapes.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page(title: str, body: str, figures: Mapping[str, Figure]) -> str:
    """A self-contained page. ``title`` is plain text; ``body`` is HTML, already escaped, in which
    ``<div class="figure" data-figure="NAME"></div>`` places a figure."""
    first = script("theme.js")  # before anything is painted
    inline = [first, *([plotly()] if figures else []), *map(script, SCRIPTS)]
    return (
        templates()
        .get_template("shell.html.j2")
        .render(
            title=title,
            body=body,
            style=(HERE / "page.css").read_text("utf-8"),
            heights={name: figure.height for name, figure in figures.items()},
            figures=embedded({name: vars(figure) for name, figure in figures.items()}),
            first=first,
            scripts=inline[1:],
            policy=policy(inline),
        )
    )


@cache
def templates() -> Environment:
    """The environment of all templates here: everything is escaped, a missing name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(HERE)
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def policy(scripts: list[str]) -> str:
    """The Content-Security-Policy under which these scripts, and nothing else, may run."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def embedded(value: object) -> str:
    """JSON that may stand inside a script element; NaN and infinity become null."""
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    for sign, escape in UNSAFE.items():
        text = text.replace(sign, escape)
    return text


def plotly() -> str:
    """Plotly's script, as it stands between two tags."""
    from plotly.offline import get_plotlyjs

    return between_tags(get_plotlyjs())


@cache
def script(name: str) -> str:
    """A script in this directory, as it stands between two tags."""
    return between_tags((HERE / name).read_text("utf-8"))


def between_tags(text: str) -> str:
    """The text with line ends as \\n, as browsers hash it."""
    ends = any(sign in text for sign in ("</sc", "</SC", "</Sc", "</sC", "<!--"))
    assert not ends, "this script would end its element too early"
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
