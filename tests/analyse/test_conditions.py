"""What the gate may be asked, and how nonsense is refused: never a silent pass."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.conditions import (
    METRIC_NAMES,
    data_wait_condition,
    parse_condition,
    parse_fraction,
    refuse_contradictions,
)
from bottleneck_doctor.model.errors import UsageError
from bottleneck_doctor.model.gate import Condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("data_wait_fraction > 0.2", Condition("data_wait_fraction", ">", 0.2)),
        ("  gpu_busy_fraction<.8  ", Condition("gpu_busy_fraction", "<", 0.8)),
        ("step_time_s >= 1e-3", Condition("step_time_s", ">=", 0.001)),
        ("steps_per_s <= 40", Condition("steps_per_s", "<=", 40.0)),
        ("samples_per_s != 1.", Condition("samples_per_s", "!=", 1.0)),
        ("startup_s == +2", Condition("startup_s", "==", 2.0)),
    ],
)
def test_a_condition_is_metric_operator_value(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not METRIC OP VALUE: write it like for example 'data_wait_fraction > 0.2'"),
        ("   ", "is not METRIC OP VALUE"),
        ("data_wait_fraction", "is not METRIC OP VALUE"),
        ("> 0.2", "is not METRIC OP VALUE"),
        ("data_wait_fraction >", "is not METRIC OP VALUE"),
        ("0.1 < data_wait_fraction", "is not METRIC OP VALUE"),
        ("data_wait_fraction > 0.2 or step_time_s > 1", "is not METRIC OP VALUE"),
        ("data_wait_fraction > 0.2\n", "can"),
        ("data_wait_fraction = 0.2", "no operator =, did you mean =="),
        ("data_wait_fraction => 0.2", "no operator =>, did you mean >="),
        ("data_wait_fraction <> 0.2", "did you mean !="),
        ("data_wait_fraction >> 0.2", "use one of < <= > >= == !="),
        ("data_wait > 0.2", "no metric 'data_wait', did you mean data_wait_fraction"),
        ("dta_wait_fraction > 0.2", "did you mean data_wait_fraction"),
        ("Data_Wait_Fraction > 0.2", "did you mean data_wait_fraction"),
        ("gpu > 0.2", "did you mean gpu_busy_fraction"),
        ("zzz > 0.2", "known are batch_release_fraction, checkpoint_fraction"),
        ("data_wait_fraction > nan", "'nan' is not a number from 0 to 1"),
        ("data_wait_fraction > NaN", "'NaN' is not a number"),
        ("data_wait_fraction > inf", "'inf' is not a number"),
        ("step_time_s > -inf", "'-inf' is not a number of at least 0"),
        ("step_time_s > 1e999", "expected a number of at least 0"),
        ("step_time_s > -1", "expected a number of at least 0"),
        ("data_wait_fraction > -0.1", "expected a number from 0 to 1"),
        ("data_wait_fraction > 20", "expected a number from 0 to 1, write 0.2 for 20 %"),
        ("data_wait_fraction > 20%", "write 0.2 for 20%"),
        ("data_wait_fraction > 1.01", "expected a number from 0 to 1"),
        ("data_wait_fraction > 0,2", "'0,2' is not a number"),
        ("data_wait_fraction > 1_0", "'1_0' is not a number"),
        ("data_wait_fraction > 0x1", "'0x1' is not a number"),
        ("data_wait_fraction > ٣", "is not"),
        ("data_wait_fraction > 1", "can never be true of data_wait_fraction, so it would always pass"),
        ("data_wait_fraction < 0", "can never be true"),
        ("step_time_s < 0", "can never be true"),
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


def test_an_endless_condition_gives_a_short_line() -> None:
    with pytest.raises(UsageError) as caught:
        parse_condition("data_wait_fraction > " + "9" * 100_000)
    assert len(str(caught.value)) < 300


def test_the_origin_of_a_condition_is_named() -> None:
    with pytest.raises(UsageError, match=r"^pyproject\.toml fail-if: no metric 'x'"):
        parse_condition("x > 1", origin="pyproject.toml fail-if")


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1", 1.0), (".5", 0.5), ("5e-2", 0.05)])
def test_fractions_run_from_0_to_1(text: str, value: float) -> None:
    assert parse_fraction(text, "--max-data-wait") == value


@pytest.mark.parametrize(
    "text", ["", " ", "nan", "-nan", "inf", "-0.1", "1.1", "20", "20%", "a", "0.1.2", "1e999"]
)
def test_what_is_no_fraction_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        parse_fraction(text, "--max-data-wait")


def test_of_several_limits_on_the_data_wait_the_strictest_wins() -> None:
    assert data_wait_condition(["0.3", "0.1", "0.2"]) == [
        Condition("data_wait_fraction", ">", 0.1, "--max-data-wait")
    ]
    assert data_wait_condition([]) == []


def test_one_bad_limit_among_good_ones_is_refused() -> None:
    with pytest.raises(UsageError):
        data_wait_condition(["0.3", "nan"])


@pytest.mark.parametrize(
    ("texts", "contradict"),
    [
        (["step_time_s > 1", "step_time_s < 2"], True),
        (["step_time_s > 1", "step_time_s <= 1"], True),
        (["step_time_s > 1", "step_time_s < 1"], False),
        (["step_time_s >= 1", "step_time_s < 1"], True),
        (["step_time_s > 2", "step_time_s < 1"], False),
        (["step_time_s > 2", "steps_per_s < 3"], False),
        (["data_wait_fraction > 0.1", "data_wait_fraction > 0.2"], False),
        (["data_wait_fraction >= 0"], True),
        (["data_wait_fraction <= 1"], True),
        (["data_wait_fraction != 0.5"], False),
        (["data_wait_fraction != 0.5", "data_wait_fraction != 0.6"], True),
        (["data_wait_fraction != 0.5", "data_wait_fraction == 0.5"], True),
        (["startup_s == 1", "startup_s == 2"], False),
        ([], False),
    ],
)
def test_conditions_that_nothing_can_satisfy_are_refused(texts: list[str], contradict: bool) -> None:
    conditions = [parse_condition(text) for text in texts]
    if contradict:
        with pytest.raises(UsageError, match="would fail whatever"):
            refuse_contradictions(conditions)
    else:
        refuse_contradictions(conditions)


def test_the_metrics_of_the_contract_are_known() -> None:
    assert len(METRIC_NAMES) == len(set(METRIC_NAMES)) == 18
