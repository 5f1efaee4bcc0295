"""Slower than the baseline: what fails and what the noise excuses; what is said of losses."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse import compare as words
from bottleneck_doctor.analyse.compare import parity
from bottleneck_doctor.analyse.gate import DEFAULT_LIMIT, Measured, change_between, compare_runs
from bottleneck_doctor.model.report import (
    Difference,
    Metric,
    Overhead,
    Quality,
    Regression,
    Repeat,
    Report,
    RunSummary,
    Verdict,
)
from bottleneck_doctor.model.run import Losses, Trial

RUN = RunSummary(
    ["t.py"], "t.py", "/", "2026-03-01T12:00:00Z", 9.0, 0, "box", "3.11.7", "2.13", {"cores": 2.0}
)
CPU = Verdict("cpu", "input.preprocess", "", "high")
UNSURE = replace(CPU, bound="inconclusive")


def timed(step_s: float | None, error: float | None = 0.002, batch: float | None = None) -> Report:
    ends = [None, None] if step_s is None or error is None else [step_s * (1 - error), step_s * (1 + error)]
    metrics = {"step_time_s": Metric(step_s, "s", *ends, 400)}
    if step_s and batch:
        metrics["steps_per_s"] = Metric(1 / step_s, "1/s")
        metrics["samples_per_s"] = Metric(batch / step_s, "1/s")
    return Report(RUN, Quality(400, 10, 0.1, Overhead(None, None, None)), metrics, [], CPU)


def side(*reports: Report) -> list[Repeat]:
    return [Repeat(f"{number}.json", report) for number, report in enumerate(reports)]


def held(base: list[Report], new: list[Report], limit: float = 0.03, *allowed: str) -> Regression:
    return compare_runs(side(*base), side(*new), limit, allowed)


FIVE = [timed(step) for step in (0.0990, 0.1010, 0.1000, 0.0995, 0.1005)]


def scaled(by: float) -> list[Report]:
    return [timed(report.metrics["step_time_s"].value * by) for report in FIVE]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("by", "limit", "status"),
    [(1.0, 0.0, 0), (1.0, 0.03, 0), (0.8, 0.03, 0), (1.1, 0.03, 1), (1.1, 0.09, 0), (3.0, 1.0, 1)],
)
def test_five_quiet_repeats_a_side_show_what_is_beyond_the_limit(
    by: float, limit: float, status: int
) -> None:
    regression = held(FIVE, scaled(by), limit)
    assert regression.status == status
    assert regression.change == pytest.approx(by - 1)
    assert regression.low is not None
    assert regression.high is not None
    assert regression.low < by - 1 < regression.high


def test_what_one_run_a_side_cannot_show_five_can() -> None:
    one = held(FIVE[:1], scaled(1.08)[:1], DEFAULT_LIMIT)
    assert (one.status, one.assumed) == (0, True)
    assert one.sees is not None
    assert one.sees > 0.1
    five = held(FIVE, scaled(1.08), DEFAULT_LIMIT)
    assert (five.status, five.assumed) == (1, False)


def crowded(step_s: float) -> Report:
    """Without other programs a step takes 0.1 s."""
    own = Metric(0.1, "s", 0.0998, 0.1002, 400)
    return replace(timed(step_s), quality=replace(FIVE[0].quality, uncontended_step=own))


def test_what_other_programs_cost_is_left_out_where_every_run_knows_it() -> None:
    regression = held([crowded(0.1)] * 5, [crowded(0.2)] * 5)
    assert (regression.status, regression.change) == (0, pytest.approx(0.0))
    assert (regression.base_contended, regression.new_contended) == (0.0, pytest.approx(0.5))
    blind = held([timed(0.1)] * 5, [crowded(0.2)] * 5)
    assert (blind.status, blind.new_contended) == (1, None)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (timed(None), "0.json: step_time_s was not measured"),
        (timed(0.1, None), "0.json: the step time has no interval"),
        (timed(0.0), "0.json: the step time is zero"),
        (
            replace(timed(0.3), verdict=UNSURE, quality=replace(FIVE[0].quality, steady_steps=1)),
            "0.json: too few steps for step_time_s, 1 steady ones",
        ),
    ],
)  # fmt: skip
def test_a_side_that_cannot_speak_is_named(new: Report, why: str) -> None:
    for regression in (held(FIVE[:1], [new]), held([new], FIVE[:1])):
        assert (regression.status, regression.why, regression.refused) == (3, why, False)


def test_a_machine_that_differs_refuses_unless_it_is_allowed_by_name() -> None:
    other = replace(timed(0.2), run=replace(RUN, torch="2.14"))
    refused = held(FIVE[:1], [other])
    assert (refused.status, refused.refused, refused.change) == (3, True, None)
    assert refused.differences == [Difference("torch", "2.13", "2.14", refuses=True)]
    allowed = held(FIVE[:1], [other], 0.03, "torch")
    assert (allowed.status, allowed.refused) == (1, False)
    assert allowed.differences == refused.differences


def test_batches_of_another_size_are_compared_by_the_sample() -> None:
    bigger = held([timed(0.1, batch=8)] * 5, [timed(0.2, batch=16)] * 5)
    assert (bigger.what, bigger.status) == ("sample", 0)
    assert bigger.change == pytest.approx(0.0)
    assert bigger.base_s == pytest.approx(0.0125)
    assert bigger.differences == [Difference("batch-size", 8.0, 16.0)]
    assert held([timed(0.1, batch=8)] * 5, [timed(0.1, batch=4)] * 5).status == 1


def test_a_run_that_strangers_crowded_out_says_nothing_of_the_job() -> None:
    """Its time cannot be corrected, and as it stands it is theirs: neither a failure nor a pass."""
    theirs = timed(0.5)
    gone = Metric(None, "s", source="steps were almost entirely waiting")
    theirs = replace(theirs, quality=replace(theirs.quality, uncontended_step=gone))
    regression = held(FIVE, [*FIVE[1:], theirs])
    assert (regression.status, regression.change) == (3, None)
    assert regression.why == "4.json: steps were almost entirely waiting"


def runs(*values: float, error: float = 0.001) -> list[Measured]:
    return [Measured(value, error) for value in values]


@pytest.mark.parametrize(("noise", "repeats"), [(0.01, 1), (0.02, 5)])
def test_the_interval_holds_the_truth_nine_times_of_ten(noise: float, repeats: int) -> None:
    chance = random.Random(3)
    held = 0
    for _ in range(1000):
        base, new = (
            runs(*(math.exp(shift + chance.gauss(0, noise)) for _ in range(repeats))) for shift in (0.0, 0.07)
        )
        change = change_between(base, new)
        held += change.low <= math.expm1(0.07) <= change.high
    assert held >= 890


LOSSES = [2.3 - 0.01 * step for step in range(32)]
BATCHES = list(range(100, 148))
OTHERS, SWAPPED = [batch + 1000 for batch in BATCHES], [BATCHES[place ^ 1] for place in range(48)]
LABELLED = [(step + 1) << 32 | step for step in range(48)]  # labels above the checksum of a batch
REDRAWN = [(step + 1) << 32 | 7000 + step for step in range(48)]


def trial(
    values: Sequence[float] = LOSSES, batches: Sequence[int] = BATCHES, ranks: Sequence[int | None] = (None,)
) -> Trial:
    """A run of some processes with the same losses and batches."""
    written = [float.hex(value) for value in values]
    return Trial(losses=[Losses(place, rank, written, list(batches)) for place, rank in enumerate(ranks)])


def scaled_losses(share: float) -> list[float]:
    """The same losses, all but the first few larger by that share."""
    return LOSSES[:4] + [value * (1 + share) for value in LOSSES[4:]]


TWICE, UNSTEADY = [trial()] * 2, [trial(), trial(scaled_losses(0.1))]
BROKEN = [*LOSSES[:-1], float("nan")]


@pytest.mark.parametrize(
    ("baselines", "treated", "word", "text"),
    [
        (TWICE, trial(), "identical", ""),
        (TWICE, trial(batches=OTHERS), "identical", words.OTHER_BATCHES),
        (TWICE, trial(scaled_losses(2e-7)), "changed",
         f"{words.SAME_BATCHES}; losses differ {words.ONLY_LAST_DIGITS}"),
        (TWICE, trial(scaled_losses(0.1)), "changed", words.SAME_BATCHES),
        (TWICE, trial(LOSSES[::-1], SWAPPED), "order", words.OTHER_ORDER),
        ([trial(batches=LABELLED)] * 2, trial(scaled_losses(0.1), REDRAWN), "changed", words.REDRAWN),
        (TWICE, trial(BROKEN), "changed", f"{words.SAME_BATCHES}; {words.NOT_A_NUMBER}"),
        ([trial(ranks=(0, 1))], trial(ranks=(0,)), "unknown", words.NOT_THE_SAME_PROCESSES),
        (UNSTEADY, trial(scaled_losses(0.2)), "unknown", words.UNSTEADY),
        ([trial()], trial(scaled_losses(0.1)), "unknown", words.ONCE),
        (TWICE, Trial(), "unknown", words.NOTHING_SEEN),
    ],
)  # fmt: skip
def test_what_a_treatment_did_to_the_losses(
    baselines: list[Trial], treated: Trial, word: str, text: str
) -> None:
    found = parity(baselines, [treated])
    assert (found.word, found.text) == (word, text)
