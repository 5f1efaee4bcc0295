"""A page stands alone: its policy names its own scripts, and nothing in it ends an element early."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import pytest

from bottleneck_doctor.render.figures.axes import Figure
from bottleneck_doctor.render.page import embedded, page, policy, script

LINE = Figure(
    [{"type": "scatter", "y": [1.0, float("nan"), 2.0]}], {"xaxis": {"range": [0, 2]}}, 180, "A line"
)
SCRIPTS = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@pytest.fixture(scope="module")
def drawn() -> str:
    return page("</title><script>x", '<p class="figure" data-figure="line"></p>', {"line": LINE})


def test_the_policy_allows_exactly_the_scripts_that_are_there(drawn: str) -> None:
    allowed = re.search(r"script-src ([^;]*);", html.unescape(drawn[:2000]))
    assert allowed is not None
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in SCRIPTS.findall(drawn)
    ]
    assert allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert "default-src &#39;none&#39;" in drawn


def test_a_title_is_text(drawn: str) -> None:
    assert "<title>&lt;/title&gt;&lt;script&gt;x</title>" in drawn


def test_nothing_is_fetched_but_what_the_policy_would_refuse(drawn: str) -> None:
    ours = drawn.replace(SCRIPTS.findall(drawn)[1], "")  # Plotly's own script names addresses in comments
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", ours)
    assert "@import" not in ours
    assert "url(" not in ours


def test_a_page_without_charts_has_no_library_in_it() -> None:
    assert len(page("t", "<p>x</p>", {})) < 100_000


def test_room_for_a_chart_is_kept_before_it_is_drawn(drawn: str) -> None:
    assert '[data-figure="line"] { height: 180px; }' in drawn


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "\u2028", "a&b", "\ud800"])
def test_embedded_strings_end_no_element_and_come_back(text: str) -> None:
    written = embedded({"text": [text]})
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == {"text": [text]}


def test_numbers_that_are_none_become_null() -> None:
    written = embedded({"y": [1.0, float("nan"), float("inf"), (float("-inf"), 2)]})
    assert json.loads(written) == {"y": [1.0, None, None, [None, 2]]}


def test_every_script_of_ours_may_stand_in_a_page() -> None:
    for name in ("theme.js", "page.js", "figures.js", "batches.js"):
        assert script(name).strip()


def test_a_policy_names_each_script_by_its_digest() -> None:
    empty = base64.b64encode(hashlib.sha256(b"").digest()).decode()
    assert f"script-src 'sha256-{empty}';" in policy([""])
