"""Samples, pictures and files are kept in memory: each is made once, and handed out as it was."""

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


def test_pixels_are_those_of_the_file() -> None:
    pytest.importorskip("PIL")
    assert tried().said["pictures"] == [True] * 6
    assert "" in tried().told("decoded")


def test_a_sample_is_read_from_a_copy_in_memory() -> None:
    assert tried().said["files"] == [f"content {index % 2}/memfd:" for index in range(4)]
    assert "" in tried().told("preload")


def test_a_file_that_is_opened_elsewhere_is_the_file_itself() -> None:
    assert tried().said["outside_of_fetching"] == "data-0"
