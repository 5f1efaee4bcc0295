"""The libraries of a worker have one thread each."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried


@pytest.mark.slow
def test_every_pool_of_a_worker_has_one_thread() -> None:
    assert set(tried().said["pools"]) == {1}
    assert tried().told("worker_threads") == {""}


@pytest.mark.slow
def test_the_trainings_own_threads_stay_as_they_are() -> None:
    assert tried().said["outside"] == 2
