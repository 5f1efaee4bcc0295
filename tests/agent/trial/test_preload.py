"""Files that are opened while batches are made are read from memory; others are left where they are."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_a_sample_is_read_from_a_copy_in_memory() -> None:
    assert tried().said["files"] == [f"content {index % 2}/memfd:" for index in range(4)]
    assert "" in tried().told("preload")


def test_a_file_that_is_opened_elsewhere_is_the_file_itself() -> None:
    assert tried().said["outside_of_fetching"] == "data-0"
