"""The gate and the comparison as drawn: terminal, markdown summary, JUnit XML, annotations."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

from bottleneck_doctor.analyse.compare import compare
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.gate import Checked, Condition, Difference, Gate, Judgement, Outcome, Regression
from bottleneck_doctor.model.report import Metric, Report
from bottleneck_doctor.render.ci import LARGEST_BYTES, MOST, github, junit, summary
from bottleneck_doctor.render.gate import comparison_text, gate_lines, outcome_lines
from tests.render.drawn import require_golden
from tests.render.gates import ALL, FINE, GATES, SEVERAL, UNSURE
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import HEALTHY, METRICS, TYPICAL

WAITS = "fails when > 0.2 (--max-data-wait)"
SLOWER = "fails when slower than the baseline by more than 5 %"
WAIT = Condition("data_wait_fraction", ">", 0.2, "--max-data-wait")


@pytest.mark.parametrize(
    ("judgement", "line"),
    [
        (
            Judgement(WAIT, 1, 0.62134, 0.601, 0.6402, 402),
            f"FAIL data_wait_fraction = 0.6213 (90 % interval 0.601–0.6402, n = 402); {WAITS}",
        ),
        (
            Judgement(WAIT, 0, 0.19, 0.17, 0.21, 402, close=True),
            f"ok   data_wait_fraction = 0.19 (90 % interval 0.17–0.21, n = 402); {WAITS}"
            "; close: the interval crosses the threshold",
        ),
        (
            Judgement(WAIT, 1, 0.2000004),
            f"FAIL data_wait_fraction = 0.2000004; {WAITS}",
        ),
        (
            Judgement(WAIT, 3, None, why="data_wait_fraction was not measured"),
            f"?    cannot say: data_wait_fraction was not measured; {WAITS} [cannot-say]",
        ),
        (
            Judgement(WAIT, 3, None, why="\x1b[31m"),
            f"?    cannot say: data_wait_fraction: \\x1b[31m; {WAITS} [cannot-say]",
        ),
    ],
)  # fmt: skip
def test_a_threshold_is_one_line_with_the_numbers_behind_it(judgement: Judgement, line: str) -> None:
    assert outcome_lines(Outcome(judgement.status, [judgement])) == [line]


RUNS = "5 runs against 5; unchanged runs differ by 2 %"
MOVED = Regression(
    1, 0.05, 5, 5, base_s=0.1, new_s=0.11, change=0.1, low=0.08, high=0.12, noise=0.02, sees=0.08, wanted=0.1
)
NOISY = replace(MOVED, status=0, low=-0.02, high=0.22)
ONE = replace(NOISY, base_runs=1, new_runs=1, assumed=True, noise=0.03, sees=0.21)
TORCH = Difference("torch", "2.13", "2.14", refuses=True)


@pytest.mark.parametrize(
    ("regression", "line"),
    [
        (MOVED, f"FAIL step time 100 ms → 110 ms, +10 % (+8 % to +12 %); {RUNS}; {SLOWER}"),
        (
            replace(MOVED, what="sample"),
            f"FAIL time per sample 100 ms → 110 ms, +10 % (+8 % to +12 %); {RUNS}; {SLOWER}",
        ),
        (
            replace(MOVED, base_contended=0.004, new_contended=0.31),
            f"FAIL step time 100 ms → 110 ms, +10 % (+8 % to +12 %); {RUNS}; other programs on the machine"
            f" cost 0.4 % and 31 % of it, not counted; {SLOWER}",
        ),
        (
            NOISY,
            f"ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); {RUNS}; {SLOWER}; within the noise",
        ),
        (
            replace(ONE, repeats=6),
            "ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); 1 run against 1; unchanged runs are"
            f" taken to differ by 3 %; {SLOWER}; within the noise; minimum detectable regression:"
            " 21 % (6 runs per side would detect 10 %)",
        ),
        (
            replace(NOISY, sees=0.4),
            f"ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); {RUNS}; {SLOWER}; within the noise;"
            " minimum detectable regression: 40 % (the runs differ too much to detect 10 %)",
        ),
        (
            Regression(3, 0.05, 1, 1, why="step_time_s was not measured in base.json"),
            f"?    cannot say: step_time_s was not measured in base.json; {SLOWER} [cannot-say]",
        ),
        (
            Regression(3, 0.05, 1, 1, why="not comparable", refused=True, differences=[TORCH]),
            "?    cannot say: not comparable; different torch: 2.13 and 2.14; --allow-different torch"
            f" overlooks that; {SLOWER} [not-comparable]",
        ),
    ],
)  # fmt: skip
def test_a_baseline_is_the_last_line(regression: Regression, line: str) -> None:
    gate = Gate(regression.status, [Checked("a.json", TYPICAL, Outcome(0))], regression)
    assert gate_lines(gate) == [line]


def test_what_else_differs_stands_below_the_comparison() -> None:
    told = replace(MOVED, differences=[TORCH, Difference("workers", 2, 4)])
    assert gate_lines(Gate(1, [], told))[1:] == [
        "     careful: different torch: 2.13 and 2.14",
        "     careful: different workers: 2 and 4",
    ]


def test_of_several_profiles_each_line_names_its_own() -> None:
    judgement = Judgement(WAIT, 0, 0.1)
    checked = [Checked(name, TYPICAL, Outcome(0, [judgement])) for name in ("a.json", "b\x1b.json")]
    lines = gate_lines(Gate(0, checked))
    assert [line.split(" ")[0] for line in lines] == ["a.json:", "b\\x1b.json:"]


CURED = replace(
    HEALTHY,
    metrics={
        **METRICS,
        "data_wait_fraction": Metric(0.02, "fraction", 0.015, 0.03, 402, "loader hook"),
        "step_time_s": Metric(0.0097, "s", 0.0096, 0.0098, 402, "loader hook"),
        "cpu_busy_fraction": Metric(0.9, "fraction", 0.88, 0.92, 80, "/proc"),
        "worker_busy_fraction": Metric(0.6, "fraction", None, None, 402, "loader hook"),
    },
)


@pytest.mark.parametrize(("name", "new"), [("cured", CURED), ("same", TYPICAL)])
def test_a_comparison_is_drawn_as_accepted(name: str, new: Report) -> None:
    require_golden(f"compare-{name}.txt", comparison_text(compare(TYPICAL, new)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_foreign_reaches_the_terminal_as_a_command(attack: str) -> None:
    hostile = attacked(TYPICAL, ATTACKS[attack])
    hostile = replace(hostile, metrics={ATTACKS[attack]: METRICS["step_time_s"]})
    drawn = comparison_text(compare(TYPICAL, hostile), "ascii")
    assert drawn.isascii()
    assert not [sign for sign in drawn if unicodedata.category(sign) == "Cc" and sign != "\n"]


SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit-10.xsd")


def suite(gate: Gate) -> ElementTree.Element:
    return ElementTree.fromstring(junit(gate, "1.2.3"))[0]


@pytest.mark.parametrize("name", GATES)
def test_every_outcome_is_valid_by_the_schema(name: str) -> None:
    SCHEMA.validate(junit(GATES[name], "1.2.3").decode())


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_strings_stay_text_and_valid(attack: str) -> None:
    page = junit(attacked(ALL, ATTACKS[attack]), "1.2.3")
    SCHEMA.validate(page.decode())
    names = [element.tag for element in ElementTree.fromstring(page).iter()]
    assert names == [element.tag for element in ElementTree.fromstring(junit(ALL, "1.2.3")).iter()]


def test_a_schema_that_accepts_everything_would_prove_nothing() -> None:
    page = junit(ALL, "1.2.3").decode()
    for wrong in (
        page.replace('tests="4"', ""),
        page.replace("<failure", "<failed").replace("</failure", "</failed"),
    ):
        assert wrong != page
        assert not SCHEMA.is_valid(wrong)


def test_each_condition_of_each_profile_is_a_test_and_so_is_the_baseline() -> None:
    cases = suite(SEVERAL).findall("testcase")
    assert len(cases) == 30 * 2 + 1
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)


@pytest.mark.parametrize(
    ("gate", "counts"),
    [(ALL, ("4", "2", "1", "0")), (FINE, ("1", "0", "0", "0")), (UNSURE, ("2", "0", "2", "0"))],
)
def test_what_fails_is_a_failure_and_what_cannot_be_said_an_error(
    gate: Gate, counts: tuple[str, ...]
) -> None:
    found = suite(gate)
    assert tuple(found.get(name) for name in ("tests", "failures", "errors", "skipped")) == counts


def test_a_failure_says_value_interval_and_threshold() -> None:
    failure = suite(ALL).find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == (
        "data_wait_fraction = 0.6213 (90 % interval 0.601–0.6402, n = 402);"
        " fails when > 0.2 (--max-data-wait)"
    )


def test_the_errors_name_their_reason() -> None:
    assert [error.get("type") for error in suite(UNSURE).iter("error")] == ["cannot-say", "not-comparable"]


def test_the_suite_knows_the_version_the_outcome_the_verdict_and_how_long_the_runs_took() -> None:
    found = suite(ALL)
    properties = {one.get("name"): one.get("value") for one in found.iter("property")}
    assert properties["bdoc"] == "1.2.3"
    assert properties["gate"] == "fails"
    assert properties["data_wait_fraction of a.json"] == "0.6213"
    assert str(properties["verdict of a.json"]).startswith("cpu, input.preprocess: making batches")
    assert (found.get("time"), suite(SEVERAL).get("time")) == ("38.210", "1146.300")


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
def test_hostile_strings_neither_end_a_command_nor_start_one(attack: str) -> None:
    for line in (line for gate in GATES.values() for line in github(attacked(gate, ATTACKS[attack]), HOME)):
        level, _, message = understood(line)
        assert level in {"error", "warning", "notice"}
        assert all(row.isprintable() for row in message.split("\n"))
        line.encode()


def test_a_message_may_hold_what_the_grammar_uses() -> None:
    gate = attacked(ALL, "50 %, a=b::c%0Ad")
    assert any("50 %, a=b::c" in understood(line)[2].replace("%0A", "") for line in github(gate, HOME))


@pytest.mark.parametrize("name", ["all", "unsure"])
def test_a_page_is_written_as_accepted(name: str) -> None:
    require_golden(f"gate-{name}.md.txt", summary(GATES[name]))


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_strings_add_no_markup(attack: str) -> None:
    page = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", summary(attacked(ALL, ATTACKS[attack])))
    assert not re.search(r"<(?!!-- -->)", page)
    assert not re.search(r"(?<!\\)\]\(|@\w|(?<!&)#\d", page)
    assert len(re.findall(r"^#", page, re.MULTILINE)) == 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_row_has_as_many_cells_as_the_head(attack: str) -> None:
    table = re.findall(r"(?:^\|.*\|\n)+", summary(attacked(ALL, ATTACKS[attack])), re.MULTILINE)
    assert len(table) == 1
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table[0].splitlines()}) == 1


def test_repeats_that_say_the_same_are_told_once() -> None:
    assert summary(SEVERAL).count("Make batches in worker processes") == 1


def test_a_page_takes_no_more_room_than_there_is() -> None:
    whole = summary(ALL)
    for room in (len(whole.encode()), len(whole.encode()) - 1, 200, 40, 5, 0, -1):
        page = summary(ALL, room)
        assert len(page.encode()) <= max(0, room)
    assert summary(ALL, len(whole.encode())) == whole
    assert summary(ALL, 40) == "## bdoc check: fails\n\n"


def test_ten_thousand_profiles_fit_into_what_github_takes() -> None:
    many = Gate(1, [replace(one, profile="p" * 200) for one in ALL.checked * 10_000])
    assert 1000 < len(summary(many).encode()) <= LARGEST_BYTES


def test_a_gate_that_holds_says_so_first() -> None:
    assert summary(FINE).startswith("## bdoc check: holds\n")
    assert summary(Gate(3, [Checked("a", FINE.checked[0].report, FINE.checked[0].outcome)])).startswith(
        "## bdoc check: cannot say\n"
    )
