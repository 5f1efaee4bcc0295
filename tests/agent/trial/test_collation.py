"""Arrays travel as tensors, rows are taken at once, and the batches are what they were."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_the_loop_gets_what_it_got_before() -> None:
    said = tried().said
    assert said["types"] == ["ndarray", "list", "tuple", "ndarray"]
    assert said["reversed"] == [[2], [3]]  # a layout that tensors do not have goes as before
    assert tried().told("arrays") == {""}


def test_an_array_can_be_written_to() -> None:
    assert tried().said["sounds"] == [[5], [3]]


@pytest.mark.parametrize("how", ["getitems", "sampler", "subset"])
def test_batches_are_the_same_to_the_last_bit_and_of_the_same_types(how: str) -> None:
    same, batches, container, batch_size = tried().said[how]
    assert same
    assert (batches, container, batch_size) == (3, "list", 16)
    assert "" in tried().told("batched")


def test_a_data_set_with_a_getitem_of_its_own_is_left_alone() -> None:
    assert tried().said["own_rows"] == [[1.0], [1.0]]
    assert "not batches of a TensorDataset" in tried().told("batched")
