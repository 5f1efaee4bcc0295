"""The gate's promises, on recorded runs of unchanged jobs while other programs fought for the cores."""

import pytest

from tests.bench.repeats import KEPT, fair_power, rates, recorded

pytestmark = [pytest.mark.slow, pytest.mark.long]

TABLE = recorded(KEPT)
TRIES = 200


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("repeats", [1, 5])
@pytest.mark.parametrize("job", TABLE)
def test_of_two_hundred_gates_on_an_unchanged_job_at_most_two_fail(
    job: str, repeats: int, in_turn: bool
) -> None:
    wrong, _ = rates(TABLE[job], repeats, in_turn, TRIES)
    assert wrong * TRIES <= 2


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("job", TABLE)
def test_a_tenth_slower_fails_95_of_100_gates_with_five_repeats(job: str, in_turn: bool) -> None:
    _, right = rates(TABLE[job], 5, in_turn, TRIES)
    assert right >= 0.95


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_both_promises_hold_for_noise_of_up_to_three_percent(noise: float) -> None:
    wrong, right = fair_power(noise, 5, TRIES)
    assert wrong * TRIES <= 2
    assert right >= 0.95
