"""A loader is built with other arguments, the one that is meant and no other; batches are what they were."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_of_several_loaders_built_on_one_line_only_the_one_meant_is_changed() -> None:
    said = tried().said
    assert said["trained"] == [2, 3, False]
    assert said["held_out"] == [0, None, False]  # evaluation, told apart by its sampler
    assert said["other"] == [0, None, False]  # and by its length


def test_arguments_that_the_script_gives_by_position_are_changed_too() -> None:
    assert tried().said["by_place"] == [3, 2, True]


def test_a_subclass_with_a_constructor_of_its_own_is_built_as_it_wants_to_be() -> None:
    assert tried().said["own_class"] == [1, 2, False]


def test_what_only_workers_take_goes_with_the_workers() -> None:
    said = tried().said
    assert (said["bare"], said["bare_timeout"], said["bare_batches"]) == ([0, None, False], 0, 4)


def test_a_refused_argument_leaves_the_loader_as_the_script_builds_it_and_is_told() -> None:
    assert tried().said["refused"] == [1, 2, False]
    assert "ValueError: prefetch_factor option should be non-negative" in tried().told("loader")


def test_an_argument_that_this_torch_does_not_know_is_told() -> None:
    assert "this torch's DataLoader takes no never_heard_of" in tried().told("loader")


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
