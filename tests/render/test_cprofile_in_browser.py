"""cProfile's times in a real browser: drawn, listed, zoomed into, with nothing asked of any server."""

import cProfile
import pstats
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from snakeviz.stats import json_stats, table_rows

from bottleneck_doctor.render.page import cprofile_page
from tests.render.browser import Browser, open_browser

pytestmark = [pytest.mark.slow, pytest.mark.long]

ATTACK = "<img src=x onerror='document.title = 7'></script><script>document.title = 7</script>"
DRAWN = "document.querySelectorAll('#chart rect').length"
CLICK = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("times")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of calls within calls, one of them in a file with a hostile name."""
    names: dict[str, Any] = {}
    exec(
        compile("def inner(): return sum(range(10**6))\ndef outer(): inner(); inner()", ATTACK, "exec"), names
    )
    profiler = cProfile.Profile()
    profiler.runcall(names["outer"])
    file: Path = tmp_path_factory.mktemp("prof") / "a.prof"
    profiler.dump_stats(file)
    stats = pstats.Stats(str(file))
    return cprofile_page("a.prof", table_rows(stats), json_stats(stats))


def test_it_is_drawn_listed_and_zoomed_into_without_a_server(browser: Browser, page: str) -> None:
    browser.show(page, ready=DRAWN)
    boxes = browser.run(f"return {DRAWN}")
    assert boxes >= 3
    assert browser.run("return document.querySelectorAll('#pstats-table tbody tr').length") >= 3
    rows = browser.run(
        "return [...document.querySelectorAll('#pstats-table tbody tr')].map(one => one.innerText)"
    )
    inner = next(number for number, text in enumerate(rows) if "(inner)" in text)
    browser.run(
        CLICK.replace("arguments[0]", f"document.querySelectorAll('#pstats-table tbody tr')[{inner}]")
    )
    browser.wait_for(f"{DRAWN} > 0 && {DRAWN} < {boxes}")
    browser.run(CLICK, browser.driver.find_element("css selector", "#resetbutton-root"))
    browser.wait_for(f"{DRAWN} === {boxes}")
    assert browser.driver.title == "a"
    assert browser.errors() == []
    asked = [url for url in browser.requests() if not url.startswith("blob:")]
    assert [url.rpartition("/")[2] for url in asked] == ["page.html"]
