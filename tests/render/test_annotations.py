"""Workflow commands by the grammar that GitHub documents, read back as GitHub's runner reads them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.gate import Checked, Gate
from bottleneck_doctor.render.ci import MOST, github
from tests.render.gates import ALL, FINE, GATES, SEVERAL, UNSURE
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import TYPICAL

HOME = "/home/ann/cats"
GRAMMAR = re.compile(r"::(?P<name>[a-z]+)(?: (?P<properties>[^:\r\n]*?))?::(?P<data>[^\r\n]*)")


def understood(line: str) -> tuple[str, dict[str, str], str]:
    """Name, properties and message of a command."""
    found = GRAMMAR.fullmatch(line)
    assert found, line
    pairs = (pair.partition("=") for pair in (found["properties"] or "").split(",") if pair)
    properties = {name: plain(value) for name, _, value in pairs}
    assert set(properties) <= {"file", "line", "title"}, line
    return found["name"], properties, plain(found["data"])


def plain(text: str) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def located(file: str, line: int = 7) -> Gate:
    """The gate that fails, blamed on one place."""
    finding = replace(TYPICAL.findings[1], location=Location(file, line))
    report = replace(TYPICAL, findings=[finding], remedies=[])
    return replace(ALL, checked=[Checked("a.json", report, ALL.checked[0].outcome)], regression=None)


def test_what_fails_marks_the_line_of_the_primary_finding() -> None:
    marks = [understood(line) for line in github(ALL, HOME)]
    level, properties, message = next(one for one in marks if "data_wait_fraction >" in one[1]["title"])
    assert (level, properties["file"], properties["line"]) == ("error", "train.py", "41")
    assert message.splitlines() == [
        "data_wait_fraction = 0.6213 (90 % interval 0.601–0.6402, n = 402);"
        " fails when > 0.2 (--max-data-wait)",
        "Make batches in worker processes (×2.5 predicted): Give the loader workers.",
    ]


def test_errors_come_first_then_warnings_then_advice() -> None:
    levels = [understood(line)[0] for line in github(ALL, HOME)]
    assert levels == ["error", "error", "warning", "notice", "notice"]


def test_a_gate_that_holds_only_advises() -> None:
    marks = [understood(line) for line in github(FINE, HOME)]
    assert {level for level, _, _ in marks} == {"notice"}
    assert [properties["title"] for _, properties, _ in marks] == ["bdoc: workers-auto", "bdoc: decode-turbo"]


def test_what_cannot_be_said_is_a_warning_at_no_line() -> None:
    marks = [understood(line) for line in github(UNSURE, HOME)]
    assert [level for level, _, _ in marks] == ["warning", "warning"]
    assert all("file" not in properties for _, properties, _ in marks)


def test_there_are_no_more_than_github_shows_and_equal_ones_are_one() -> None:
    assert len(github(SEVERAL, HOME)) == MOST
    fine = Gate(0, FINE.checked * 30)
    assert len(github(fine, HOME)) == len(github(FINE, HOME))


@pytest.mark.parametrize(
    ("file", "workspace", "shown"),
    [
        ("/home/ann/cats/train.py", "/home/ann/cats", "train.py"),
        ("/home/ann/cats/train.py", "/home/ann", "cats/train.py"),
        ("train.py", "/home/ann/cats", "train.py"),
        ("/home/ann/cats/a,b:c%.py", "/home/ann/cats", "a,b:c%.py"),
        ("/home/ann/cats/::error::x.py", "/home/ann/cats", "::error::x.py"),
        ("/home/ann/cats/größe 1.py", "/home/ann/cats", "größe 1.py"),
        ("/usr/lib/python3/PIL/Image.py", "/home/ann/cats", None),
        ("/home/ann/cats-too/train.py", "/home/ann/cats", None),
        ("/home/ann/cats/../dogs/train.py", "/home/ann/cats", None),
        ("/home/ann/cats/a\nb.py", "/home/ann/cats", None),
        ("/home/ann/cats/a\x1b[2Jb.py", "/home/ann/cats", None),
        ("/home/ann/cats/caf\udce9.py", "/home/ann/cats", None),
        ("", "/home/ann/cats", None),
    ],
)
def test_files_are_named_as_seen_from_the_workspace_or_not_at_all(
    file: str, workspace: str, shown: str | None
) -> None:
    _, properties, _ = understood(github(located(file), workspace)[0])
    assert properties.get("file") == shown
    assert ("line" in properties) is (shown is not None)


def test_a_line_that_is_none_is_not_marked() -> None:
    assert "file" not in understood(github(located("/home/ann/cats/train.py", 0), HOME)[0])[1]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", GATES)
def test_hostile_strings_neither_end_a_command_nor_start_one(name: str, attack: str) -> None:
    for line in github(attacked(GATES[name], ATTACKS[attack]), HOME):
        level, _, message = understood(line)
        assert level in {"error", "warning", "notice"}
        assert all(row.isprintable() for row in message.split("\n"))
        line.encode()


def test_a_message_may_hold_what_the_grammar_uses() -> None:
    gate = attacked(ALL, "50 %, a=b::c%0Ad")
    assert any("50 %, a=b::c" in understood(line)[2].replace("%0A", "") for line in github(gate, HOME))
