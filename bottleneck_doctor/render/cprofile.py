"""cProfile's times as snakeviz's page, with everything inlined that it would request from its server."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from ..model.errors import UsageError
from .page import between_tags, embedded, policy

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
