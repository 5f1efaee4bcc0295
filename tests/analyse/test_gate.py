"""The CI gate and comparisons: conditions, what holds, what nobody can say."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.compare import (
    NAMES,
    between,
    compare,
    data_wait_condition,
    differences,
    parse_condition,
    refuse_contradictions,
)
from bottleneck_doctor.analyse.gate import check, judge
from bottleneck_doctor.model.errors import UsageError
from bottleneck_doctor.model.report import (
    Condition,
    Metric,
    Overhead,
    Quality,
    Repeat,
    Report,
    RunSummary,
    Verdict,
)
from tests.render.reports import TYPICAL

RUN = RunSummary(["t.py"], "t.py", "/", "2026-03-01T12:00:00Z", 9.0, 0, "box", "3.11", "2.13")
CPU = Verdict("cpu", "input.preprocess", "", "high")
UNSURE = Verdict("inconclusive", "none", "", "low")


def report(verdict: Verdict = CPU, steps: int = 400, **metrics: Metric) -> Report:
    return Report(RUN, Quality(steps, 10, 0.1, Overhead(None, None, None)), metrics, [], verdict)


WAIT = Metric(0.3, "fraction", 0.28, 0.33, 400, "loader hook")
REPORT = report(
    data_wait_fraction=WAIT, gpu_busy_fraction=Metric(None, "fraction"), startup_s=Metric(3.0, "s", n=1)
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("data_wait_fraction > 0.2", 1),
        ("data_wait_fraction > 0.3", 0),
        ("data_wait_fraction == 0.3", 1),
        ("gpu_busy_fraction < 0.8", 3),
    ],
)
def test_a_condition_names_the_failing_state(text: str, status: int) -> None:
    condition = parse_condition(text)
    assert judge(REPORT, [condition]).status == status


@pytest.mark.parametrize(("threshold", "close"), [("0.27", False), ("0.29", True), ("0.4", False)])
def test_a_threshold_inside_the_interval_is_close(threshold: str, close: bool) -> None:
    condition = parse_condition(f"data_wait_fraction > {threshold}")
    assert judge(REPORT, [condition]).judgements[0].close is close


@pytest.mark.parametrize(("verdict", "steps", "status"), [(UNSURE, 3, 3), (UNSURE, 400, 1), (CPU, 3, 1)])
def test_too_few_steps_for_a_verdict_are_too_few_for_a_gate(
    verdict: Verdict, steps: int, status: int
) -> None:
    few = report(verdict, steps, data_wait_fraction=WAIT)
    assert judge(few, [parse_condition("data_wait_fraction > 0.2")]).status == status


RUN_OF = [Repeat("a.json", REPORT), Repeat("b.json", report(data_wait_fraction=replace(WAIT, value=0.1)))]


def test_a_regression_that_cannot_be_judged_outweighs_thresholds_that_hold() -> None:
    gate = check(RUN_OF, [parse_condition("data_wait_fraction > 0.9")], base=RUN_OF[:1], limit=0.05)
    assert gate.regression is not None
    assert gate.regression.why == "a.json: step_time_s was not measured"
    assert gate.status == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not METRIC OP VALUE: write it like for example 'data_wait_fraction > 0.2'"),
        ("data_wait_fraction > 0.2\n", "can"),
        (f"data_wait_fraction > 0.2{' ' * 200}and more", "is not METRIC OP VALUE"),
        ("data_wait_fraction = 0.2", "no operator =, did you mean =="),
        ("data_wait > 0.2", "no metric 'data_wait', did you mean data_wait_fraction"),
        ("data_wait_fraction > nan", "'nan' is not a number from 0 to 1"),
        ("step_time_s > -1", "expected a number of at least 0"),
        ("data_wait_fraction > 20", "expected a number from 0 to 1, write 0.2 for 20 %"),
        ("data_wait_fraction > 1", "can never be true of data_wait_fraction, so it would always pass"),
        ("\x1b[31m > 0.2", "'\\x1b[31m > 0.2'"),
    ],
)
def test_nonsense_is_refused_and_the_nearest_sense_is_named(text: str, said: str) -> None:
    if text.endswith("\n"):
        assert parse_condition(text).threshold == 0.2  # a shell's own line end is no nonsense
        return
    with pytest.raises(UsageError) as caught:
        parse_condition(text)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_of_several_limits_on_the_data_wait_the_strictest_wins() -> None:
    assert data_wait_condition(["0.3", "0.1", "0.2"]) == [
        Condition("data_wait_fraction", ">", 0.1, "--max-data-wait")
    ]
    assert data_wait_condition([]) == []


@pytest.mark.parametrize(
    ("texts", "contradict"),
    [
        (["step_time_s > 1", "step_time_s < 2"], True),
        (["step_time_s > 1", "step_time_s < 1"], False),
        (["data_wait_fraction <= 1"], True),
        (["data_wait_fraction != 0.5", "data_wait_fraction != 0.6"], True),
    ],
)
def test_conditions_that_nothing_can_satisfy_are_refused(texts: list[str], contradict: bool) -> None:
    conditions = [parse_condition(text) for text in texts]
    if contradict:
        with pytest.raises(UsageError, match="would fail whatever"):
            refuse_contradictions(conditions)
    else:
        refuse_contradictions(conditions)


def metric(value: float | None, spread: float | None = 0.01) -> Metric:
    if value is None or spread is None:
        return Metric(value, "x")
    return Metric(value, "x", value - spread, value + spread, 100)


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("data_wait_fraction", metric(0.6), metric(0.1), "better"),
        ("cpu_busy_fraction", metric(0.2), metric(0.9), "moved"),
        ("step_time_s", metric(0.1, 0.0001), metric(0.1015, 0.0001), "noise"),
        ("iowait_fraction", metric(0.001, 0.0), metric(0.002, 0.0), "noise"),
        ("step_time_s", metric(0.1, None), metric(0.2), "unknown"),
        ("gpu_busy_fraction", metric(None), metric(0.5), "absent"),
    ],
)
def test_a_metric_moves_only_beyond_the_noise(name: str, before: Metric, after: Metric, said: str) -> None:
    moves = compare(*(replace(TYPICAL, metrics={name: one}) for one in (before, after))).moves
    assert [one.kind for one in moves] == [said]


ENVIRONMENT = {"device": "cuda:0", "world_size": 2, "num_workers": 4, "torch_threads": 1, "bdoc": "0.1"}
WATCHED = replace(TYPICAL, environment=ENVIRONMENT)


def changed(run: dict[str, object], environment: dict[str, object], machine: dict[str, object]) -> Report:
    changes = {**run, "machine": {**WATCHED.run.machine, "cpu": "Xeon", **machine}}
    return replace(
        WATCHED,
        run=replace(WATCHED.run, **changes),  # type: ignore[arg-type]
        environment={**WATCHED.environment, **environment},  # type: ignore[dict-item]
    )


def typed(script: str) -> dict[str, object]:
    return {"script": script, "command": ["python", script, *ARGUMENTS]}


ARGUMENTS = WATCHED.run.command[2:]
BASE = changed({}, {}, {})


@pytest.mark.parametrize(
    ("what", "new", "refuses"),
    [
        ("script", changed(typed("other.py"), {}, {}), True),
        ("script", changed({"script": None, "command": ["python", "-m", "train", *ARGUMENTS]}, {}, {}), True),
        ("torch", changed({"torch": "2.13.0+cu130"}, {}, {}), True),
        ("cpu", changed({}, {}, {"cpu": "EPYC"}), True),
        ("arguments", changed({"command": ["python", "train.py", "--lr", "1"]}, {}, {}), False),
        ("bdoc", changed({}, {"bdoc": "0.2"}, {}), False),
        ("steps", replace(BASE, quality=replace(BASE.quality, steady_steps=50)), False),
    ],
)
def test_what_the_machine_brings_refuses_and_what_the_script_chose_is_told(
    what: str, new: Report, refuses: bool
) -> None:
    assert [(one.what, one.refuses) for one in differences(BASE, new)] == [(what, refuses)]
    found, why = between([BASE], [new])
    assert [one.what for one in found] == [what]
    assert bool(why) is refuses
    assert between([BASE], [new], allowed=[what])[1] == ""
    assert what in NAMES


def test_runs_of_one_side_must_be_repeats_of_one_job() -> None:
    more_workers = changed({}, {"num_workers": 8}, {})
    found, why = between([BASE], [BASE, more_workers])
    assert [one.what for one in found] == ["workers"]
    assert why == "the runs of the new side are not repeats of one job"
    assert between([BASE, more_workers], [BASE])[1] == "the runs of the baseline are not repeats of one job"
    assert between([BASE], [BASE, more_workers], allowed=["workers"])[1] == ""
