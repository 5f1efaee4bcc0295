"""Finished samples are kept in memory: each is made once, and handed out as a copy."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dataset", ["Made", "MadeHere", "MadeSpawned"])
def test_each_sample_is_made_once_and_comes_out_as_it_was(dataset: str) -> None:
    right, made, untouched = tried().said[dataset]
    assert right
    assert made == 12  # samples, in two epochs and a third, whichever worker is asked
    assert untouched, "what a script does to a sample stays out of the memory"
    assert "" in tried().told("cache")


def test_the_script_still_sees_its_own_data_set() -> None:
    assert tried().said["still"] == "MadeSpawned"
