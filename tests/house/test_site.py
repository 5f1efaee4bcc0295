"""The pages as a site: built without a warning, whole without a network, and no link in it leads nowhere."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from tests.house import reference
from tests.house.source import ROOT, Broken, house_files, require_none

ADDRESS = re.compile(r"https?://[^\s)>\]`\"']+")
# Elements of which a browser fetches what they name; a link to click on is none.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_FETCHED = {"canonical", "search", "index", "next", "prev", "author", "copyright"}


class Page(HTMLParser):
    """What a page of the site names: its own anchors, the links to click on, and what a browser fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser for each element."""
        has = {name: value or "" for name, value in attrs}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif tag in FETCHED and FETCHED[tag] in has and has.get("rel") not in NOT_FETCHED:
            self.fetched.append(has[FETCHED[tag]])


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
        for path, page in pages(site)
        for address in page.fetched
        if urlsplit(address).netloc
    )
    styles = [(path, path.read_text("utf-8")) for path in site.rglob("*.css")]
    require_none(
        Broken(str(path.relative_to(site)), 1, f"`{found[0]}` is fetched", do)
        for path, text in styles
        for found in re.finditer(r"(?:@import|url\()\s*['\"]?https?:[^)'\"]*", text)
    )


@pytest.mark.slow
@pytest.mark.long
def test_no_link_of_the_site_leads_nowhere(site: Path) -> None:
    known = {path.resolve(): page for path, page in pages(site)}
    dead = [
        (path, link)
        for path, page in known.items()
        for link in [*page.links, *page.fetched]
        if not leads_somewhere(path, link, known)
    ]
    do = "mend the link in the page that it was made from"
    require_none(Broken(str(path.relative_to(site)), 1, f"`{link}` leads nowhere", do) for path, link in dead)


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


@pytest.mark.parametrize("page", [file for file in house_files() if file.endswith(".md")])
def test_addresses_of_other_places_are_well_formed(page: str) -> None:
    for address in ADDRESS.findall((ROOT / page).read_text(encoding="utf-8")):
        parts = urlsplit(address)
        assert re.fullmatch(r"[\w.-]+(?::\d+)?", parts.netloc), f"{page}: {address} names no host"


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("", True),
        ("#here", True),
        ("#nowhere", False),
        ("other.html#there", True),
        ("other.html#here", False),
        ("gone.html", False),
        ("https://example.org/x", True),
    ],
)
def test_the_rule_itself_knows_dead_links(link: str, leads: bool, tmp_path: Path) -> None:
    first, other = tmp_path / "index.html", tmp_path / "other.html"
    first.write_text('<p id="here">')
    other.write_text('<p id="there">')
    known = {path: Page(path.read_text()) for path in (first, other)}
    assert leads_somewhere(first, link, known) is leads


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    """Every page of a built site."""
    for path in sorted(site.rglob("*.html")):
        yield path, Page(path.read_text(encoding="utf-8"))


def leads_somewhere(path: Path, link: str, known: dict[Path, Page]) -> bool:
    """Whether a link in the page at ``path`` names a file that is there, and an anchor that is in it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    return not parts.fragment or target not in known or unquote(parts.fragment) in known[target].anchors
