"""How Sphinx makes a site of these pages: `make docs`. A page needs nothing that is not in the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
# Where the repository is to be read, for links out of docs/. On GitHub's runners it is known.
SERVED = "/".join(filter(None, map(os.environ.get, ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))))
REPOSITORY = os.environ.get("REPOSITORY") or (SERVED if SERVED.count("/") == 4 else "")

project = "bdoc"
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
# Links to headings: `page.md#words-of-the-heading`, as repositories show them.
myst_heading_anchors = 3
# A block that names no language is what a terminal shows.
highlight_language = "none"

html_theme = "furo"
html_title = "bdoc, the bottleneck doctor"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False

LEAVING = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>\.\./[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def lead_out(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn a page's links to files outside docs/ into links to the repository, or name their paths."""
    folder = Path(app.srcdir, name).parent

    def led(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if target.is_relative_to(app.srcdir):
            return link[0]
        path = target.relative_to(ROOT)
        if not REPOSITORY:
            return f"{link['text']} (`{path}` in the repository)"
        return f"[{link['text']}]({REPOSITORY}/blob/HEAD/{path}{link['anchor'] or ''})"

    source[0] = LEAVING.sub(led, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", lead_out)
