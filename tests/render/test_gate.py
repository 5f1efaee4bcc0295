"""The gate and the comparison as drawn: terminal, markdown summary, JUnit XML, annotations."""

import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

from bottleneck_doctor.analyse.compare import NAMES, compare
from bottleneck_doctor.analyse.gate import compare_runs
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.picture import Mark, Picture
from bottleneck_doctor.model.report import (
    Checked,
    Condition,
    DeviceSummary,
    Difference,
    Gate,
    Judgement,
    Metric,
    Outcome,
    Phase,
    Regression,
    Repeat,
    Report,
    RunSummary,
)
from bottleneck_doctor.render import render
from bottleneck_doctor.render.compose import compose
from bottleneck_doctor.render.document import WHOLE
from bottleneck_doctor.render.gate import (
    MOST,
    comparison_text,
    failed_lines,
    gate_lines,
    github,
    junit,
    outcome_lines,
    summary,
)
from bottleneck_doctor.render.html import html_body, show
from bottleneck_doctor.render.watch import plain_line, short
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import HEALTHY, INCONCLUSIVE, METRICS, QUALITY, REMEDIES, RUN, TYPICAL
from tests.render.scenes import PICTURE
from tests.render.test_watch import VIEW

WAIT = Condition("data_wait_fraction", ">", 0.2, "--max-data-wait")
BUSY = Condition("gpu_busy_fraction", "<", 0.8)
STEP = Condition("step_time_s", ">", 1.0)
FAILED = Judgement(WAIT, 1, 0.6213, 0.601, 0.6402, 402)
UNKNOWN = Judgement(BUSY, 3, None, why="gpu_busy_fraction was not measured")
HELD = Judgement(STEP, 0, 0.0241, 0.0238, 0.0245, 402)
WORSE = Regression(
    1, 0.03, 5, 4, base_s=0.0212, new_s=0.0241, change=0.137, low=0.09, high=0.18, noise=0.02,
    sees=0.07, wanted=0.1, differences=[Difference("workers", 2, 4)],
)  # fmt: skip
REFUSED = Regression(
    3, 0.03, 5, 4, why="not comparable", refused=True, differences=[Difference("torch", "2.13", "2.14", True)]
)
ALL = Gate(1, [Checked("a.json", TYPICAL, Outcome(1, [FAILED, UNKNOWN, HELD]))], WORSE)
FINE = Gate(0, [Checked("a.json", TYPICAL, Outcome(0, [HELD]))])
UNSURE = Gate(3, [Checked("a.json", INCONCLUSIVE, Outcome(3, [UNKNOWN]))], REFUSED)
SEVERAL = Gate(1, [Checked(f"{n}.json", TYPICAL, Outcome(1, [FAILED, HELD])) for n in range(30)], WORSE)
GATES = {"all": ALL, "fine": FINE, "unsure": UNSURE, "several": SEVERAL}

MOVED = Regression(
    1, 0.05, 5, 5, base_s=0.1, new_s=0.11, change=0.1, low=0.08, high=0.12, noise=0.02, sees=0.08, wanted=0.1
)
NOISY = replace(MOVED, status=0, low=-0.02, high=0.22)
ONE = replace(NOISY, base_runs=1, new_runs=1, assumed=True, noise=0.03, sees=0.21)
TORCH = Difference("torch", "2.13", "2.14", refuses=True)

JUDGEMENTS = [
    FAILED,
    Judgement(WAIT, 0, 0.19, 0.17, 0.21, 402, close=True),
    Judgement(WAIT, 1, 0.2000004),
    Judgement(WAIT, 3, None, why="\x1b[31m"),
    UNKNOWN,
]
REGRESSIONS = [
    MOVED,
    replace(MOVED, what="sample"),
    replace(MOVED, base_contended=0.004, new_contended=0.31),
    NOISY,
    replace(ONE, repeats=6),
    replace(NOISY, sees=0.4),
    Regression(3, 0.05, 1, 1, why="step_time_s was not measured in base.json"),
    Regression(3, 0.05, 1, 1, why="not comparable", refused=True, differences=[TORCH]),
]

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


def compared(new: Report, base: Report = TYPICAL, encoding: str = "utf-8") -> str:
    judged = compare_runs([Repeat("a.json", base)], [Repeat("b.json", new)], 0.03, NAMES)
    return comparison_text(compare(base, new), judged, encoding)


def test_each_threshold_each_baseline_and_each_comparison_is_drawn_as_accepted() -> None:
    lines = [line for one in JUDGEMENTS for line in outcome_lines(Outcome(one.status, [one]))]
    checked = [Checked("a.json", TYPICAL, Outcome(0))]
    lines += [line for one in REGRESSIONS for line in gate_lines(Gate(one.status, checked, one))]
    lines += [f"\n{compared(new)}" for new in (CURED, TYPICAL)]
    require_golden("gate-lines.txt", "\n".join(lines))


def answered(run: RunSummary = RUN, **metrics: Metric) -> str:
    """The first line about the cured run with these changes."""
    return compared(replace(CURED, run=run, metrics={**CURED.metrics, **metrics})).partition("\n")[0]


def test_the_first_line_says_whether_it_is_faster_and_by_how_much() -> None:
    times = "step 24.1 → 9.7 ms: ×2.48 faster"
    assert answered() == f"{times}; data wait 62 → 2 %"
    assert answered(data_wait_fraction=Metric(None, "fraction")) == times
    other = replace(RUN, machine={"cores": 8.0, "gpus": []})
    assert answered(other) == f"{times}, with different cores: 4 and 8; data wait 62 → 2 %"
    slow, none = Metric(0.0723, "s", 0.07, 0.074), Metric(None, "s")
    assert answered(step_time_s=slow).startswith("step 24.1 → 72.3 ms: ×3.00 slower;")
    near = Metric(0.0236, "s", 0.0235, 0.0237)  # unchanged runs are taken to differ by as much
    unsure = "step 24.1 → 23.6 ms: no difference that these runs can show;"
    assert answered(step_time_s=near).startswith(unsure)
    left = Metric(0.0095, "s", 0.0094, 0.0096)  # of both steps without the time that other programs took
    base, new = (replace(one, quality=replace(QUALITY, uncontended_step=left)) for one in (TYPICAL, CURED))
    lost = "; without the 61 % and 2.1 % that other programs cost: no difference that these runs can show;"
    assert compared(new, base).startswith(f"step 24.1 → 9.7 ms{lost}")
    assert answered(step_time_s=none) == "cannot say which is faster: b.json: step_time_s was not measured"
    twice = Metric(2655.4, "1/s", 2600, 2700)  # batches of twice the size
    assert answered(samples_per_s=twice).startswith("time per sample 753 → 152 µs: ×4.97 faster;")


def test_nothing_foreign_reaches_the_terminal_as_a_command() -> None:
    for attack in ATTACKS.values():
        hostile = attacked(TYPICAL, attack)
        hostile = replace(hostile, metrics={attack: METRICS["step_time_s"]})
        drawn = compared(hostile, encoding="ascii")
        assert drawn.isascii()
        assert not [sign for sign in drawn if unicodedata.category(sign) == "Cc" and sign != "\n"]


def test_all_that_names_the_bound_does_it_in_the_words_of_the_report() -> None:
    verdict = replace(TYPICAL.verdict, cause="host.launch")
    phases = [Phase(0, 9, "early", verdict), Phase(9, 402, "steady", verdict)]
    report = replace(TYPICAL, verdict=verdict, phases=phases, device=DeviceSummary("Simulated", "cuda"))
    gate = Gate(1, [Checked("a.json", report, Outcome(1, [FAILED]))])
    picture = Picture(replace(PICTURE.timeline, marks=[Mark("phase", 0.0, 9.0, "steady")]))
    said = [
        "\n".join(gate_lines(gate)), summary(gate), junit(gate, "1").decode(), compared(report, report),
        plain_line(VIEW, report, 80, False, "utf-8"), short(VIEW, report, 80, False, "utf-8"),
        *(render(report, kind) for kind in ("terminal", "markdown", "prompt")),
        html_body(compose(report, WHOLE), show(report, picture)), *show(report, picture).marks,
    ]  # fmt: skip
    for text in said:
        assert "launch-bound" in text, text
        assert not re.search(r"CPU-bound|\bcpu\b", text), text


SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit-10.xsd")


def suite(gate: Gate) -> ElementTree.Element:
    return ElementTree.fromstring(junit(gate, "1.2.3"))[0]


def test_every_outcome_is_valid_by_the_schema_and_hostile_strings_stay_text() -> None:
    for gate in GATES.values():
        SCHEMA.validate(junit(gate, "1.2.3").decode())
    names = [element.tag for element in ElementTree.fromstring(junit(ALL, "1.2.3")).iter()]
    for attack in ATTACKS.values():
        page = junit(attacked(ALL, attack), "1.2.3")
        SCHEMA.validate(page.decode())
        assert [element.tag for element in ElementTree.fromstring(page).iter()] == names


@pytest.mark.parametrize(
    ("gate", "counts"),
    [(ALL, ("4", "2", "1", "0")), (FINE, ("1", "0", "0", "0")), (UNSURE, ("2", "0", "2", "0"))],
)
def test_what_fails_is_a_failure_and_what_cannot_be_said_an_error(
    gate: Gate, counts: tuple[str, ...]
) -> None:
    found = suite(gate)
    assert tuple(found.get(name) for name in ("tests", "failures", "errors", "skipped")) == counts
    slugs = {"cannot-say", "not-comparable"} if gate is UNSURE else {"cannot-say"} if gate is ALL else set()
    assert {error.get("type") for error in found.iter("error")} == slugs


def test_the_suite_knows_the_version_the_outcome_the_verdict_and_how_long_the_runs_took() -> None:
    found = suite(ALL)
    properties = {one.get("name"): one.get("value") for one in found.iter("property")}
    assert properties["bdoc"] == "1.2.3"
    assert properties["gate"] == "fails"
    assert properties["data_wait_fraction of a.json"] == "0.6213"
    waits = "62 % of each step waits for batches"
    assert properties["verdict of a.json"] == f"CPU-bound, input.preprocess: {waits}"
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


@pytest.mark.parametrize(
    ("gate", "levels"),
    [
        (ALL, ["error", "error", "warning", "notice"]),  # the first remedy stands in the error at its line
        (FINE, ["notice", "notice"]),
        (UNSURE, ["warning", "warning"]),
    ],
)
def test_errors_come_first_then_warnings_then_advice(gate: Gate, levels: list[str]) -> None:
    marks = [understood(line) for line in github(gate, HOME)]
    assert [level for level, _, _ in marks] == levels
    assert all("file" not in properties for level, properties, _ in marks if level == "warning")


def test_repeats_are_one_mark_and_there_are_no_more_than_github_shows() -> None:
    marks = [understood(line) for line in github(SEVERAL, HOME)]
    assert [level for level, _, _ in marks] == ["error", "error", "notice"]
    assert marks[1][2].splitlines()[0] == "30 of 30 runs: 0.6213; fails when > 0.2 (--max-data-wait)"
    spread = [replace(FAILED, value=0.3), HELD, replace(FAILED, status=0, value=0.1)]
    gate = Gate(
        1, [Checked(f"{n}.json", TYPICAL, Outcome(1, [one])) for n, one in enumerate([FAILED, *spread])]
    )
    assert "2 of 4 runs: 0.3–0.6213;" in github(gate, HOME)[0]
    jobs = [replace(TYPICAL, run=replace(RUN, script=f"{n}.py")) for n in range(30)]
    several = [Checked("a.json", report, Outcome(1, [FAILED])) for report in jobs]
    assert len(github(Gate(1, several), HOME)) == MOST


def test_what_fails_comes_with_the_verdict_and_what_to_do_first_once() -> None:
    first = "     first: make batches in worker processes, train.py:41, ×2.5 (an hour becomes 24 minutes)"
    told = ["     CPU-bound: 62 % of each step waits for batches", first]
    assert failed_lines(Outcome(1), TYPICAL) == told
    assert failed_lines(Outcome(3), TYPICAL) == []
    assert failed_lines(Outcome(1), HEALTHY)[1:] == ["     no remedy in the report acts on step_time_s"]
    report = replace(TYPICAL, remedies=[REMEDIES[3], REMEDIES[0]])
    fails = [Outcome(1, [replace(FAILED, condition=one)]) for one in (STEP, WAIT)]
    assert ["channels last" in failed_lines(one, report)[1] for one in fails] == [True, False]
    lines = gate_lines(SEVERAL)
    assert [line for line in lines if line.startswith("     ")][:2] == lines[2:4] == told
    assert lines.count(first) == 1
    failure = suite(ALL).find("testcase/failure")
    assert failure is not None
    assert str(failure.text).splitlines()[1:] == told


@pytest.mark.parametrize(
    ("file", "workspace", "shown"),
    [
        ("/home/ann/cats/train.py", "/home/ann/cats", "train.py"),
        ("/home/ann/cats/a,b:c%.py", "/home/ann/cats", "a,b:c%.py"),
        ("/home/ann/cats-too/train.py", "/home/ann/cats", None),
        ("/home/ann/cats/../dogs/train.py", "/home/ann/cats", None),
        ("", "/home/ann/cats", None),
    ],
)
def test_files_are_named_as_seen_from_the_workspace_or_not_at_all(
    file: str, workspace: str, shown: str | None
) -> None:
    _, properties, _ = understood(github(located(file), workspace)[0])
    assert properties.get("file") == shown
    assert ("line" in properties) is (shown is not None)


def test_hostile_strings_neither_end_a_command_nor_start_one() -> None:
    for attack in ATTACKS.values():
        for line in (line for gate in GATES.values() for line in github(attacked(gate, attack), HOME)):
            level, _, message = understood(line)
            assert level in {"error", "warning", "notice"}
            assert all(row.isprintable() for row in message.split("\n"))
            line.encode()


def test_summaries_are_written_as_accepted() -> None:
    require_golden("gate.md.txt", summary(ALL) + summary(UNSURE))


def test_hostile_strings_add_no_markup() -> None:
    for attack in ATTACKS.values():
        page = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", summary(attacked(ALL, attack)))
        assert not re.search(r"<(?!!-- -->)", page)
        assert not re.search(r"(?<!\\)\]\(|@\w|(?<!&)#\d", page)
        assert len(re.findall(r"^#", page, re.MULTILINE)) == 1
        (table,) = re.findall(r"(?:^\|.*\|\n)+", summary(attacked(ALL, attack)), re.MULTILINE)
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_a_page_takes_no_more_room_than_github_gives_it() -> None:
    many = Gate(1, [replace(one, profile="p" * 200) for one in ALL.checked * 10_000])
    assert 1000 < len(summary(many).encode()) <= 1 << 20
    told = summary(replace(SEVERAL, checked=[*SEVERAL.checked, *UNSURE.checked]))
    assert told.count("Make batches in worker processes") == 1, "repeats that agree stand once"
    assert told.index("`0.json`)") < told.index("only 3 steady steps were seen")
