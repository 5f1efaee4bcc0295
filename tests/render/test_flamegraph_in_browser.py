"""The flame graph in a real browser: it draws, zooms, is searched, coloured, fits, and is not fooled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bottleneck_doctor.model.picture import CallPath, CallPaths
from bottleneck_doctor.render.flamegraph import flamegraph_page
from bottleneck_doctor.render.words import plain
from tests.render.browser import Browser, open_browser
from tests.render.hostile import ATTACKS, attacked
from tests.render.pictures import DEEP, SAMPLED, UNSAMPLED
from tests.render.reports import WATCHED

pytestmark = [pytest.mark.slow, pytest.mark.long]

BOXES = "return [...document.querySelectorAll('.figure')].map((one) => one.querySelectorAll('.slice').length)"
WIDER = "return document.documentElement.scrollWidth > innerWidth"
LEVEL = "document.querySelector('.figure .plot')._fullData[0].level"
COLOURS = "return document.querySelector('.figure .plot').data[0].marker.colors"
SEARCH = """
const search = document.getElementById('search');
search.value = arguments[0];
search.dispatchEvent(new Event('input', { bubbles: true }));
return [...document.querySelectorAll('.matched')].map((one) => one.hidden ? '' : one.textContent);
"""
CLICK = """
const slice = document.querySelectorAll('.figure')[0].querySelectorAll('.slice')[2];
slice.dispatchEvent(new MouseEvent('click', { bubbles: true }));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("flames")) as opened:
        yield opened


def test_all_boxes_are_drawn_and_nothing_is_complained_about_or_asked_for(browser: Browser) -> None:
    browser.show(flamegraph_page(WATCHED, SAMPLED))
    assert browser.run(BOXES) == [4, 4, 2]
    assert browser.errors() == []
    assert [url.rpartition("/")[2] for url in browser.requests()] == ["page.html"]


def test_a_search_says_how_much_it_found_and_marks_it(browser: Browser) -> None:
    browser.show(flamegraph_page(WATCHED, SAMPLED))
    before = browser.run(COLOURS)
    found = browser.run(SEARCH, "Photos.__GETITEM__")
    assert found == ["not found here", "found in 92 % of the samples, in 1 boxes", "not found here"]
    assert browser.run("return document.querySelectorAll('.list .found').length") == 1
    assert browser.run(SEARCH, "train.py")[0] == "found in 100 % of the samples, in 1 boxes"
    assert browser.run(COLOURS) != before
    assert browser.run(SEARCH, "") == ["", "", ""]
    assert browser.run(COLOURS) == before


def test_colours_may_say_whose_code_it_is_instead_and_zoom_stays(browser: Browser) -> None:
    browser.show(flamegraph_page(WATCHED, SAMPLED))
    before = browser.run(COLOURS)
    browser.run(CLICK)
    browser.wait_for(f"{LEVEL} === '2'")
    browser.run("document.querySelector('input[value=owners]').click()")
    browser.wait_for("document.querySelector('[data-key=states]').hidden")
    assert browser.run(COLOURS) != before
    browser.wait_for(f"{LEVEL} === '2'")


def test_as_much_as_there_may_be_fits_a_phone(browser: Browser) -> None:
    browser.show(flamegraph_page(WATCHED, DEEP), width=360, dark=True)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert not browser.run(WIDER)
    assert browser.run(BOXES)[0] >= 300
    assert browser.errors() == []


def test_a_page_without_stacks_is_as_quiet(browser: Browser) -> None:
    browser.show(flamegraph_page(WATCHED, UNSAMPLED))
    assert browser.errors() == []


def test_no_name_becomes_code(browser: Browser) -> None:
    evil = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
    for attack in (evil, ATTACKS["html"], ATTACKS["surrogate"], ATTACKS["newline"]):
        paths = [CallPath([attack, f"{attack} ({attack}:7)"], 40, 3)]
        picture = replace(SAMPLED, stacks=[CallPaths("trainer", 40, paths)])
        browser.show(flamegraph_page(attacked(WATCHED, attack), picture))
        browser.run(SEARCH, plain(attack))
        assert browser.errors() == []
        assert not browser.run("return window.owned")
