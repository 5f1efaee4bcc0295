"""Gains over the neighbouring baselines: right in the mean, honest about noise, rarely wrong in a word."""

import random
from collections import Counter

import pytest

from bottleneck_doctor.model.proof import BASELINE, Attempt, Gain
from bottleneck_doctor.prove.plan import BELIEVED, gain_of, is_settled, noise_of, readings, try_out, verdict

from .simulated_runs import BASE, Machine, measured, remedy

ARMS = ("one", "two", "three", "four")


def series(*steps: tuple[str, float]) -> list[Attempt]:
    """Runs in their order, seconds per step."""
    return [measured(arm, step_s, error=0.0) for arm, step_s in steps]


def gained(attempts: list[Attempt], arm: str = "x") -> Gain:
    found = gain_of(arm, readings(attempts))
    assert found is not None
    return found


def test_an_arm_is_held_against_the_baselines_around_it() -> None:
    slower = series((BASELINE, 0.10), ("x", 0.11), (BASELINE, 0.121), ("x", 0.1331), (BASELINE, 0.14641))
    assert gained(slower).likely == pytest.approx(1.0)


def test_before_an_arm_and_a_baseline_were_measured_there_is_no_gain() -> None:
    assert gain_of("x", readings(series((BASELINE, 0.1)))) is None
    assert gain_of("x", readings(series(("x", 0.1)))) is None
    broken = [measured(BASELINE, 0.1), Attempt("x", "broke", "no")]
    assert gain_of("x", readings(broken)) is None


def test_repeats_narrow_the_interval_and_disagreement_widens_it() -> None:
    once = gained(series((BASELINE, 0.2), ("x", 0.1), (BASELINE, 0.2)))
    twice = gained(series((BASELINE, 0.2), ("x", 0.1), (BASELINE, 0.2), ("x", 0.1), (BASELINE, 0.2)))
    apart = gained(series((BASELINE, 0.2), ("x", 0.08), (BASELINE, 0.2), ("x", 0.125), (BASELINE, 0.2)))
    assert twice.high / twice.low < once.high / once.low < apart.high / apart.low
    assert (once.runs, twice.runs) == (1, 2)


def test_noise_is_what_was_believed_until_repeats_show_another() -> None:
    assert noise_of([])[0] == BELIEVED
    chance = random.Random(1)
    quiet = readings(series(*((BASELINE, 0.1) for _ in range(60))))
    wild = readings(series(*((BASELINE, 0.1 * chance.lognormvariate(0, 0.2)) for _ in range(60))))
    assert noise_of(quiet)[0] < BELIEVED / 2
    assert noise_of(wild)[0] == pytest.approx(0.2, rel=0.25)


@pytest.mark.parametrize(
    ("low", "likely", "high", "word"),
    [
        (1.4, 1.5, 1.6, "kept"),
        (1.001, 1.01, 1.02, "no gain"),
        (0.97, 1.0, 1.03, "no gain"),
        (0.99, 1.5, 2.2, "undecided"),
        (0.7, 0.8, 0.9, "worse"),
        (0.98, 0.99, 0.999, "no gain"),
    ],
)
def test_the_word_follows_from_the_interval(low: float, likely: float, high: float, word: str) -> None:
    assert verdict(Gain(likely, low, high, 2)) == word


def test_to_end_early_a_difference_must_be_clearer_than_to_be_told() -> None:
    close, clear = Gain(1.2, 1.02, 1.41, 2), Gain(1.5, 1.3, 1.7, 2)
    assert verdict(close) == verdict(clear) == "kept"
    assert not is_settled(close)
    assert is_settled(clear)


def judged(gain: float, simulations: int) -> Counter[str]:
    """The words for arms of one true gain; machines have 2 to 5 % of noise, up to 1 % of drift a run."""
    words: Counter[str] = Counter()
    for seed in range(simulations):
        chance = random.Random(1000 + seed)
        machine = Machine(
            dict.fromkeys(ARMS, gain), chance.uniform(0.02, 0.05), chance.uniform(-0.01, 0.01), 18.0, seed
        )
        attempts: list[Attempt] = []
        try_out([BASE, *map(remedy, ARMS)], machine.run, machine.left_s, 1.0, attempts)
        found = readings(attempts)
        words += Counter(verdict(gained) for arm in ARMS if (gained := gain_of(arm, found)) is not None)
    return words


def test_of_remedies_that_bring_nothing_at_most_a_tenth_is_said_to_help_or_hurt() -> None:
    words = judged(1.0, 125)
    assert sum(words.values()) == 500
    assert words["kept"] + words["worse"] <= 50


def test_of_remedies_that_bring_15_percent_most_are_kept() -> None:
    words = judged(1.15, 50)
    assert words["kept"] >= 0.9 * 200
    assert not words["worse"]
    assert not words["no gain"]
