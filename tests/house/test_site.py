"""The pages as a site: built without a warning, which a dead link is, and whole without a network."""

import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from tests.house import reference
from tests.house.source import ROOT, Broken, house_files, require_none

# Elements of which a browser fetches what they name; a link to click on is none.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_FETCHED = {"canonical", "search", "index", "next", "prev", "author", "copyright"}


class Page(HTMLParser):
    """What a browser fetches for a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser for each element."""
        has = dict(attrs)
        if has.get("rel") not in NOT_FETCHED and (address := has.get(FETCHED.get(tag, ""))):
            self.fetched.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does it."""
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    out = tmp_path_factory.mktemp("site")
    reference.write()
    build = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html"]
    command = [sys.executable, *build, "-d", str(out / "read"), str(ROOT / "docs"), str(out / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "site"


@pytest.mark.slow
@pytest.mark.long
def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {file for file in house_files() if file.startswith("docs/") and file.endswith(".md")}
    pages |= {f"docs/reference/{name}" for name in reference.reference()}
    missing = [page for page in pages if not (site / page[len("docs/") :]).with_suffix(".html").exists()]
    require_none(Broken(page, 1, "the site does not have it", "name it in a toctree") for page in missing)


@pytest.mark.slow
@pytest.mark.long
def test_the_site_asks_no_network_for_anything(site: Path) -> None:
    do = "the site is read offline: put it under docs/, or do without"
    require_none(
        Broken(str(path.relative_to(site)), 1, f"`{address}` is fetched", do)
        for path in sorted(site.rglob("*.html"))
        for address in Page(path.read_text("utf-8")).fetched
        if urlsplit(address).netloc
    )
    styles = [(path, path.read_text("utf-8")) for path in site.rglob("*.css")]
    require_none(
        Broken(str(path.relative_to(site)), 1, f"`{found[0]}` is fetched", do)
        for path, text in styles
        for found in re.finditer(r"(?:@import|url\()\s*['\"]?https?:[^)'\"]*", text)
    )


@pytest.mark.parametrize(
    ("repository", "led"),
    [
        ("", "see it (`tests/gpu/README.md` in the repository) and [b](b.md)"),
        ("https://example.org", "see [it](https://example.org/blob/HEAD/tests/gpu/README.md) and [b](b.md)"),
    ],
)
def test_a_link_out_of_the_folder_leads_to_the_repository(
    repository: str, led: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.setenv("REPOSITORY", repository)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    source = ["see [it](../tests/gpu/README.md) and [b](b.md)"]
    settings["lead_out"](SimpleNamespace(srcdir=ROOT / "docs"), "a", source)
    assert source == [led]
