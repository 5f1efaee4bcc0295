"""What is said of losses: identical, in another order, changed, or that nothing can be said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bottleneck_doctor.analyse import same_losses as words
from bottleneck_doctor.analyse.same_losses import parity
from bottleneck_doctor.model.run import Losses, Order, Trial

LOSSES = [2.3 - 0.01 * step for step in range(32)]
BATCHES = list(range(100, 148))


def told(
    values: Sequence[float] = LOSSES, batches: Sequence[int] = BATCHES, rank: int | None = None, pid: int = 1
) -> Losses:
    return Losses(pid, rank, [float.hex(value) for value in values], list(batches))


def trial(*processes: Losses) -> Trial:
    return Trial(losses=list(processes or (told(),)))


def scaled(share: float) -> list[float]:
    """The same losses, all but the first few larger by that share."""
    return LOSSES[:4] + [value * (1 + share) for value in LOSSES[4:]]


TWICE = [trial(), trial()]


def test_losses_that_are_equal_to_the_last_bit_are_identical() -> None:
    found = parity(TWICE, [trial(), trial()])
    assert (found.word, found.steps, found.largest) == ("identical", 32, 0.0)


def test_equal_losses_are_identical_after_one_baseline_too_and_whatever_the_batches_say() -> None:
    assert parity([trial()], [trial(told(batches=[]))]).word == "identical"


def test_equal_losses_are_identical_and_other_batches_are_told_unless_the_script_varies_them() -> None:
    others = [batch + 1000 for batch in BATCHES]
    found = parity(TWICE, [trial(told(batches=others))])
    assert (found.word, found.text) == ("identical", words.OTHER_BATCHES)
    varied = [trial(), trial(told(batches=others))]
    assert parity(varied, [trial(told(batches=others[::-1]))]).text == ""


def test_a_difference_in_the_last_digits_is_a_change_and_said_to_be_small() -> None:
    found = parity(TWICE, [trial(told(scaled(2e-7)))])
    assert found.word == "changed"
    assert words.ONLY_LAST_DIGITS in found.text
    assert words.SAME_BATCHES in found.text
    assert found.largest == pytest.approx(2e-7, rel=0.01)


def test_a_larger_difference_on_the_same_batches_is_a_change_of_the_computation() -> None:
    found = parity(TWICE, [trial(told(scaled(0.003)))])
    assert (found.word, found.text) == ("changed", words.SAME_BATCHES)
    assert found.largest == pytest.approx(0.003, rel=0.01)


def test_the_worst_of_several_treated_runs_counts() -> None:
    found = parity(TWICE, [trial(), trial(told(scaled(0.003)))])
    assert found.word == "changed"


def test_the_same_batches_in_another_order_are_told_from_other_batches() -> None:
    swapped = [BATCHES[place ^ 1] for place in range(48)]
    assert parity(TWICE, [trial(told(LOSSES[::-1], swapped))]).word == "order"
    other = parity(TWICE, [trial(told(LOSSES[::-1], [batch + 1000 for batch in BATCHES]))])
    assert (other.word, other.text) == ("changed", words.OTHER_BATCHES)


def test_the_same_labels_with_other_pixels_are_the_same_samples_drawn_anew() -> None:
    labelled = [(step + 1) << 32 | step for step in range(48)]
    redrawn = [(step + 1) << 32 | 7000 + step for step in range(48)]
    pair = [trial(told(batches=labelled))] * 2
    found = parity(pair, [trial(told(scaled(0.1), redrawn))])
    assert (found.word, found.text) == ("changed", words.REDRAWN)
    alike = [1 << 32 | step for step in range(48)], [1 << 32 | 7000 + step for step in range(48)]
    found = parity([trial(told(batches=alike[0]))] * 2, [trial(told(scaled(0.1), alike[1]))])
    assert found.text == words.OTHER_BATCHES, "labels that never change tell no sample from another"


def test_what_was_on_its_way_when_noting_ended_does_not_make_other_batches() -> None:
    late = [*BATCHES[5:], 900, 901, 902, 903, 904]
    assert parity(TWICE, [trial(told(LOSSES[::-1], late))]).word == "order"


def test_a_handful_of_batches_is_no_order_unless_half_of_them_are_common() -> None:
    short = [trial(told(batches=[1, 2, 3, 4])) for _ in range(2)]
    assert parity(short, [trial(told(LOSSES[::-1], [7, 8, 9, 1]))]).word == "changed"


def test_without_batches_a_difference_is_a_change_and_the_text_says_what_is_missing() -> None:
    found = parity(TWICE, [trial(told(scaled(0.1), []))])
    assert (found.word, found.text) == ("changed", words.BATCHES_UNKNOWN)


def test_nan_equals_nan_and_differs_from_every_number() -> None:
    broken = [*LOSSES[:-1], float("nan")]
    assert parity([trial(told(broken))], [trial(told(broken))]).word == "identical"
    found = parity(TWICE, [trial(told(broken))])
    assert (found.word, found.largest) == ("changed", None)
    assert words.NOT_A_NUMBER in found.text


def test_infinities_of_both_signs_differ() -> None:
    up, down = told([float("inf")]), told([float("-inf")])
    assert parity([trial(up), trial(up)], [trial(down)]).word == "changed"


def test_plus_and_minus_nought_are_one_number() -> None:
    assert parity([trial(told([0.0]))], [trial(told([-0.0]))]).word == "identical"


def test_ranks_are_compared_by_rank_whatever_the_order_they_came_in() -> None:
    zero, one = told(rank=0, pid=10), told(scaled(0.2), rank=1, pid=11)
    pair = [trial(zero, one), trial(one, zero)]
    assert parity(pair, [trial(one, zero)]).word == "identical"
    exchanged = trial(told(scaled(0.2), rank=0), told(rank=1))
    assert parity(pair, [exchanged]).word == "changed"


def test_one_rank_that_changes_changes_the_whole() -> None:
    pair = [trial(told(rank=0), told(rank=1))] * 2
    assert parity(pair, [trial(told(rank=0), told(scaled(0.01), rank=1))]).word == "changed"


def test_processes_without_a_rank_may_start_in_any_order() -> None:
    a, b = told(pid=5), told(scaled(0.2), pid=9)
    assert parity([trial(a, b)], [trial(b, a)]).word == "identical"


def test_another_number_of_processes_cannot_be_compared() -> None:
    found = parity([trial(told(rank=0), told(rank=1))], [trial(told(rank=0))])
    assert (found.word, found.text) == ("unknown", words.NOT_THE_SAME_PROCESSES)


def test_only_the_steps_that_both_have_are_compared() -> None:
    found = parity(TWICE, [trial(told(LOSSES[:10]))])
    assert (found.word, found.steps) == ("identical", 10)


def test_several_passes_on_one_batch_are_one_step() -> None:
    closures = Trial(Order(losses=8), losses=[told(LOSSES, BATCHES[:24])])
    found = parity([closures], [closures])
    assert (found.word, found.steps) == ("identical", 8)


def test_of_a_script_that_does_not_repeat_itself_nothing_can_be_said() -> None:
    unsteady = [trial(), trial(told(scaled(0.1)))]
    found = parity(unsteady, [trial(told(scaled(0.2)))])
    assert (found.word, found.text) == ("unknown", words.UNSTEADY)
    assert parity(unsteady, [trial()]).word == "unknown"


def test_a_change_far_beyond_what_the_script_varies_by_itself_is_one() -> None:
    trembling = [trial(), trial(told(scaled(1e-7)))]
    assert parity(trembling, [trial(told(scaled(2e-7)))]).word == "unknown"
    assert parity(trembling, [trial(told(scaled(0.01)))]).word == "changed"


def test_after_one_run_of_the_script_a_difference_may_be_its_own() -> None:
    found = parity([trial()], [trial(told(scaled(0.1)))])
    assert (found.word, found.text) == ("unknown", words.ONCE)


@pytest.mark.parametrize(
    ("baselines", "treated"),
    [
        ([], [trial()]),
        ([trial()], []),
        ([trial(told([]))], [trial()]),
        ([Trial()], [Trial()]),
        (TWICE, [trial(), Trial()]),
    ],
)
def test_without_losses_nothing_can_be_said(baselines: list[Trial], treated: list[Trial]) -> None:
    found = parity(baselines, treated)
    assert (found.word, found.text) == ("unknown", words.NOTHING_SEEN)
