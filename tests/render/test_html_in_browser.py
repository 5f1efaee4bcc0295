"""The page in a real browser: it draws, requests nothing, obeys keys, fits, prints, and is not fooled."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bottleneck_doctor.render import render
from tests.render.browser import Browser, open_browser
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import WATCHED
from tests.render.scenes import LARGEST, PICTURE, STACKS

pytestmark = [pytest.mark.slow, pytest.mark.long]

TIMELINE = '[data-figure="timeline"]'
OWNED = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
LINK = '<a href="javascript:window.owned=1" onclick="window.owned=1">x</a>"\'><svg onload=window.owned=1>'
RANGE = "return arguments[0].querySelector('.plot').layout.xaxis.range.map(Number)"
PATHS = "return [...document.querySelectorAll('.figure')].map((one) => one.querySelectorAll('path').length)"
WIDTHS = "return [...document.querySelectorAll('.plot svg.main-svg')].map((one) => one.clientWidth)"
WIDER = """
const allowed = (one) => one.closest(".scroll, nav, pre, svg, .unseen, .skip");
return [...document.body.querySelectorAll("*")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !allowed(one))
  .map((one) => one.outerHTML.slice(0, 120));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("pages")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page() -> str:
    return render(WATCHED, "html", picture=replace(PICTURE, stacks=STACKS))


def test_all_charts_are_drawn_and_nothing_is_complained_about_or_asked_for(
    browser: Browser, page: str
) -> None:
    browser.show(page)
    counts = browser.run(PATHS)
    assert len(counts) == 4
    assert min(counts) > 3
    assert browser.errors() == []
    assert [url.rpartition("/")[2] for url in browser.requests()] == ["page.html"]


def test_the_largest_picture_is_drawn_whole(browser: Browser) -> None:
    browser.show(render(WATCHED, "html", picture=LARGEST))
    traces = "[...document.querySelectorAll('.plot')].flatMap((one) => one.data)"
    assert max(browser.run(f"return {traces}.map((one) => one.y.length)")) == 1000
    assert browser.errors() == []


def test_keys_zoom_pan_and_reset_a_chart(browser: Browser, page: str) -> None:
    browser.show(page)
    chart = browser.driver.find_element("css selector", TIMELINE)
    whole = browser.run(RANGE, chart)
    browser.press(TIMELINE, "+", "+")
    begin, end = browser.run(RANGE, chart)
    assert end - begin < 0.5 * (whole[1] - whole[0])
    browser.press(TIMELINE, "\ue014")  # right arrow
    assert browser.run(RANGE, chart)[0] > begin
    assert browser.run("return document.getElementById('said').textContent").endswith(" s")
    browser.press(TIMELINE, "0")
    assert browser.run(RANGE, chart) == whole
    browser.press(TIMELINE, "-", "\ue012")  # nothing lies beyond the whole
    assert browser.run(RANGE, chart) == whole


def test_a_click_on_a_box_of_call_paths_makes_it_as_wide_as_the_chart(browser: Browser, page: str) -> None:
    from selenium.webdriver import ActionChains

    browser.show(page)
    chart = browser.driver.find_element("css selector", '[data-figure="stacks-worker"]')
    ActionChains(browser.driver).move_to_element_with_offset(chart, 0, 27).click().perform()  # the third box
    browser.wait_for("document.getElementById('said').textContent")
    assert browser.run(RANGE, chart) == [0, 357]


def test_a_finger_on_a_chart_scrolls_the_page(browser: Browser, page: str) -> None:
    browser.show(page, width=360)
    browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", TIMELINE)
    before = browser.run("return scrollY")
    browser.swipe(TIMELINE)
    browser.wait_for(f"scrollY > {before} + 50")


def test_every_chart_and_button_is_reached_by_the_tab_key(browser: Browser, page: str) -> None:
    browser.show(page)
    body = browser.driver.find_element("css selector", "body")
    body.send_keys("\ue004")
    assert browser.run("return document.activeElement.className") == "skip"
    reached = set()
    for _ in range(80):
        browser.driver.switch_to.active_element.send_keys("\ue004")
        reached.add(
            browser.run("return document.activeElement.dataset.figure ?? document.activeElement.className")
        )
    assert {"timeline", "stacks-trainer", "theme", "copy"} <= reached


def test_strings_of_a_hostile_profile_stay_text(browser: Browser) -> None:
    text = "x" * 10_000 + OWNED + LINK + "".join(ATTACKS.values())
    browser.show(render(attacked(WATCHED, text), "html", picture=attacked(PICTURE, text)), width=360)
    assert browser.run("return window.owned ?? null") is None
    assert browser.errors() == []
    assert [url.rpartition("/")[2] for url in browser.requests()] == ["page.html"]
    assert (
        browser.run(
            "return document.querySelectorAll('main img, main script, main iframe, main a[onclick]').length"
        )
        == 0
    )
    assert browser.run(WIDER) == []


def test_without_javascript_the_words_stand_and_no_holes_are_left(browser: Browser, page: str) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        (browser.folder / "page.html").write_text(page, encoding="utf-8")
        browser.driver.get((browser.folder / "page.html").as_uri())
        figures = browser.driver.find_elements("css selector", ".figure")
        assert [one.is_displayed() for one in figures] == [False] * 4
        assert len(browser.driver.find_elements("css selector", "noscript p")) == 4
        assert browser.driver.find_element("css selector", ".summary").text
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_a_telephone_scrolls_in_one_direction_only(browser: Browser, page: str) -> None:
    browser.show(page, width=360, dark=True)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    assert browser.run(WIDER) == []


def test_the_theme_follows_the_system_until_it_is_chosen(browser: Browser, page: str) -> None:
    browser.show(page, dark=True)
    dark = browser.run(f"return document.querySelector('{TIMELINE} .plot')._fullLayout.font.color")
    browser.driver.find_element("id", "theme").click()
    assert browser.run("return document.documentElement.dataset.theme") == "light"
    browser.wait_for(f"document.querySelector('{TIMELINE} .plot')._fullLayout.font.color !== '{dark}'")
    browser.run("localStorage.clear()")


def test_lines_to_write_can_be_copied_or_are_selected(browser: Browser, page: str) -> None:
    browser.show(page)
    button = browser.driver.find_element("css selector", "button.copy")
    button.click()
    browser.wait_for("document.getElementById('said').textContent")
    assert button.text in ("copied", "selected")


def test_paper_gets_everything_opened_and_charts_of_its_width(browser: Browser, page: str) -> None:
    browser.show(page, dark=True)
    before = browser.run(WIDTHS)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert max(browser.run(WIDTHS)) <= 680
    assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(WIDTHS) == before
    assert browser.run("return document.querySelectorAll('details[open]').length") == 0
    assert browser.pdf().startswith(b"%PDF")
    assert browser.errors() == []
