"""Batches that are handed out again: fresh containers, the same contents."""

from __future__ import annotations

from collections import UserDict, namedtuple
from typing import Any

import pytest
import torch

from bottleneck_doctor.agent.trial.replay import Given, Tape, copied, repacked

Pair = namedtuple("Pair", "x y")


class Graph:
    """A batch of a library's own class."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def first(batch: Any) -> torch.Tensor:
    """The tensor that each of the batches below begins with."""
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, Graph):
        return batch.x
    found: torch.Tensor = batch["x"] if isinstance(batch, (dict, UserDict)) else batch[0]
    return found


X = torch.arange(6.0).reshape(2, 3)
BATCHES = [X, (X, 1), [X, "a"], {"x": X}, UserDict({"x": X}), Pair(X, None), Graph(X)]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
def test_a_copy_is_of_the_same_kind_and_shares_no_memory(batch: Any) -> None:
    copy = copied(batch)
    assert type(copy) is type(batch)
    assert torch.equal(first(copy), X)
    assert first(copy).data_ptr() != X.data_ptr()


@pytest.mark.parametrize("batch", BATCHES[2:5], ids=lambda batch: type(batch).__name__)
def test_keys_that_the_script_takes_out_are_there_again_the_next_time(batch: Any) -> None:
    again = repacked(batch)
    assert first(again) is X
    del again["x" if not isinstance(again, list) else 0]
    assert first(batch) is X


def test_a_batch_that_was_written_into_is_known_by_it() -> None:
    batch = {"x": X.clone(), "y": [X.clone()]}
    given = Given(batch)
    assert not given.written()
    batch["y"][0].div_(255)  # type: ignore[union-attr]
    assert given.written()


def test_bytes_are_those_of_tensors_and_arrays() -> None:
    tape = Tape()
    tape.record((X, {"y": X.numpy()}))
    assert tape.bytes == 2 * 24
