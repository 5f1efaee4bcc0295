"""The report as a page: the words of markdown, everything escaped, at most 2 MiB; and the page around it."""

import base64
import hashlib
import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from bottleneck_doctor.model.picture import Curve, Mark, Picture, Timeline
from bottleneck_doctor.model.report import Report
from bottleneck_doctor.model.run import Crash, RunEnd
from bottleneck_doctor.render import render
from bottleneck_doctor.render.compose import compose
from bottleneck_doctor.render.document import WHOLE
from bottleneck_doctor.render.figures import Figure
from bottleneck_doctor.render.html import html_body, show
from bottleneck_doctor.render.page import HERE, LIBRARY, embedded, page
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import HEALTHY, INCONCLUSIVE, PHASED, TYPICAL, WATCHED
from tests.render.scenes import EMPTY, LARGEST, PICTURE


class Read(HTMLParser):
    """The tags, attributes and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def body(report: Report, picture: object = PICTURE) -> str:
    return html_body(compose(report, WHOLE), show(report, picture))  # type: ignore[arg-type]


CRASH = RunEnd(150, crash=Crash(1, "ValueError", "/home/ann/cats/train.py", 40), memory={"oom_kills": 1.0})
FAILED = replace(TYPICAL, run=replace(TYPICAL.run, exit_status=1, end=CRASH))


@pytest.mark.parametrize("report", [FAILED, PHASED, HEALTHY, INCONCLUSIVE, WATCHED])
def test_the_page_says_what_markdown_says(report: Report) -> None:
    document, page = compose(report, WHOLE), Read(body(report)).text
    said = [document.headline, document.step, *document.phases, *document.gaps, document.watching]
    said += document.failed
    said += [word for bar in document.bars for word in (bar.part, bar.percent, bar.time)]
    for block in [*document.remedies, *document.warnings]:
        said += [block.title, block.likely, block.basis]
    said += [line.strip() for block in document.remedies for line in block.snippet]
    points = [point for finding in document.findings for point in finding.points]
    said += [word for point in points for word in (point.text, point.number)]
    said += [word for row in document.metrics for word in (row.name, row.value, row.interval, row.source)]
    said += [word for row in document.functions.rows for word in (row.own, row.name, row.place, row.state)]
    assert [word for word in said if " ".join(word.split()) not in page] == []


def test_an_attack_adds_no_tag_and_no_attribute() -> None:
    reference = Read(body(attacked(WATCHED, "x"), attacked(PICTURE, "x")))
    for attack in ATTACKS.values():
        page = Read(body(attacked(WATCHED, attack), attacked(PICTURE, attack)))
        assert set(page.tags) <= set(reference.tags), attack
        assert page.tags.count("script") == 0
        assert {name for name, _ in page.attributes} <= {name for name, _ in reference.attributes}


@pytest.mark.parametrize(
    ("report", "picture"), [(TYPICAL, PICTURE), (PHASED, EMPTY), (INCONCLUSIVE, EMPTY), (WATCHED, PICTURE)]
)
def test_headings_are_in_order_and_names_are_given_once(report: Report, picture: object) -> None:
    page = Read(body(report, picture))
    levels = [int(tag[1]) for tag in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    order = [ids.index(one) for one in ("budget", "change", "why", "run", "metrics") if one in ids]
    assert order == sorted(order)
    assert {value for name, value in page.attributes if name == "aria-labelledby"} <= set(ids)


def test_the_largest_picture_makes_a_page_of_at_most_2_mib() -> None:
    for picture in (LARGEST, attacked(PICTURE, "<" * 10_000)):
        assert len(render(WATCHED, "html", picture=picture).encode()) <= 2 * 2**20


@pytest.mark.parametrize("length_s", [0.0, -3.0, math.nan, math.inf, 1e-9, 5.0])
@pytest.mark.parametrize("value", [0.02, math.nan, math.inf, -1.0, 1e308, 1e-300])
def test_odd_numbers_make_a_page_whose_charts_are_whole(length_s: float, value: float) -> None:
    curve = Curve("job_cores", "cpu", [1.0, math.nan] * 8, [value, 0.02] * 8)
    marks = [Mark("phase", math.nan, 1.0), Mark("evaluation", 9.0, math.inf)]
    shown = show(TYPICAL, Picture(Timeline(length_s, [curve], marks)))
    assert html_body(compose(TYPICAL, WHOLE), shown)
    for figure in shown.figures.values():
        for name in ("xaxis", "yaxis"):
            assert all(math.isfinite(end) for end in figure.layout[name]["range"]), name
        assert "nan" not in str(figure.layout)


LINE = Figure(
    [{"type": "scatter", "y": [1.0, float("nan"), 2.0]}], {"xaxis": {"range": [0, 2]}}, 180, "A line"
)
PUBLISHED = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"
SCRIPTS = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@pytest.fixture(scope="module")
def drawn() -> str:
    return page("</title><script>x", '<p class="figure" data-figure="line"></p>', {"line": LINE})


def test_the_charts_library_is_the_published_file_with_its_licence() -> None:
    assert hashlib.sha256((HERE / LIBRARY).read_bytes()).hexdigest() == PUBLISHED, "npm pack, and its notes"
    assert "Permission is hereby granted" in (HERE / "plotly-LICENSE.txt").read_text("utf-8")


def test_the_policy_allows_exactly_the_scripts_that_are_there(drawn: str) -> None:
    allowed = re.search(r"script-src ([^;]*);", html.unescape(drawn[:2000]))
    assert allowed is not None
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in SCRIPTS.findall(drawn)
    ]
    assert allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert "default-src &#39;none&#39;" in drawn


def test_nothing_is_fetched_but_what_the_policy_would_refuse(drawn: str) -> None:
    ours = drawn.replace(SCRIPTS.findall(drawn)[1], "")  # Plotly's own script names addresses in comments
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", ours)
    assert "@import" not in ours
    assert "url(" not in ours
    assert "<title>&lt;/title&gt;&lt;script&gt;x</title>" in drawn
    assert '[data-figure="line"] { height: 180px; }' in drawn, "room for a chart is kept before it is drawn"
    assert len(page("t", "<p>x</p>", {})) < 100_000, "without charts there is no library in it"


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "\u2028", "a&b", "\ud800"])
def test_embedded_strings_end_no_element_and_come_back(text: str) -> None:
    written = embedded({"text": [text]})
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == {"text": [text]}
