"""A page from its body and its charts: style, scripts and data inlined, everything else forbidden.

cProfile's times as snakeviz's page, with everything inlined that it would request from its server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import UsageError
from ..figures import Figure

if TYPE_CHECKING:
    from jinja2 import Environment


HERE = Path(__file__).parent
SCRIPTS = ("page.js", "figures.js")
LIBRARY = "plotly-basic.min.js"  # 4.1.1, of npm's plotly.js-basic-dist-min, unchanged; plotly-LICENSE.txt
# What would end a script element or start a comment in one; JSON may write them as escapes.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page(title: str, body: str, figures: Mapping[str, Figure]) -> str:
    """A self-contained page. ``title`` is plain text; ``body`` is HTML, already escaped, in which
    ``<div class="figure" data-figure="NAME"></div>`` places a figure."""
    first = script("theme.js")  # before anything is painted
    inline = [first, *map(script, [*([LIBRARY] if figures else []), *SCRIPTS])]
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


STYLE = re.compile(r"""<link href="/static/([^"]+)" rel="stylesheet">""")
SCRIPT = re.compile(r"""<script src=["']/static/([^"']+)["']></script>""")
WORKER = '<script id="hierarchy-worker" type="javascript/worker">'
# The worker would load these from a content delivery network, or from the server.
OF_WORKER = ("vendor/immutable.min.js", "vendor/lodash.min.js")
IMAGE = re.compile(r"""url\("\.\./([^"]+)"\)""")


def cprofile_page(name: str, rows: list[Any], callees: dict[str, Any]) -> str:
    """A self-contained page of the table's ``rows`` and the tree of ``callees``, as snakeviz.stats makes
    them. No name of a function ends a script, and the page can ask for nothing."""
    import snakeviz
    from tornado.template import Loader

    home = Path(snakeviz.__file__).parent
    template = Loader(str(home / "templates")).load("viz.html")
    html = template.generate(profile_name=name, table_rows=embedded(rows), callees=embedded(callees)).decode()

    def text(file: str) -> str:
        return between_tags((home / "static" / file).read_text("utf-8"))

    html = STYLE.sub(lambda found: f"<style>{text(found[1])}</style>", html)
    html = IMAGE.sub(lambda found: _image(home / "static" / found[1]), html)
    html = SCRIPT.sub(lambda found: f"<script>{text(found[1])}</script>", html)
    own = "\n".join(["self.importScripts = function () {};", *map(text, OF_WORKER)])
    html = html.replace(WORKER, f"{WORKER}\n{own}\n")
    if own not in html or re.search("=[\"']/static", html):
        raise UsageError(f"snakeviz {snakeviz.VERSION} is not known to bdoc: pip install 'snakeviz==2.2.*'")
    rule = policy(re.findall(r"<script>(.*?)</script>", html, re.S))
    # lodash makes its templates into functions.
    rule = rule.replace("script-src", "worker-src blob:; script-src 'unsafe-eval'")
    return html.replace("<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{rule}">', 1)


def _image(file: Path) -> str:
    """An image within the page; not all that the style sheet names come with snakeviz."""
    data = base64.b64encode(file.read_bytes()).decode() if file.is_file() else ""
    return f'url("data:image/png;base64,{data}")'
