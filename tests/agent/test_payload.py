"""What a batch is made of, without touching it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bottleneck_doctor.agent.fetch import PARTS_AT_MOST, cargo, leaves, view


@dataclass
class Tensor:
    """What we look at in a tensor."""

    elements: int

    def untyped_storage(self) -> None:
        raise AssertionError("nobody needs the storage itself")

    def numel(self) -> int:
        return self.elements

    def element_size(self) -> int:
        return 4


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (Tensor(10), (1, 40, 0, 4)),
        ([Tensor(10), Tensor(1)], (2, 44, 0, 4)),
        ({"x": Tensor(2), "name": "abc", "raw": b"12345"}, (1, 8, 8, 4)),
        ((Tensor(1), [("a", 3)]), (1, 4, 1, 4)),
        (None, (0, 0, 0, 0)),
        ([], (0, 0, 0, 0)),
    ],
)
def test_tensors_and_bytes_are_counted(batch: Any, expected: tuple[int, int, int, int]) -> None:
    assert cargo(batch) == expected


def test_a_batch_of_very_many_parts_is_not_looked_through() -> None:
    assert cargo([Tensor(1)] * (PARTS_AT_MOST + 100))[0] == PARTS_AT_MOST


def test_a_batch_that_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert list(leaves(loop)) == [loop]


def test_text_and_bytes_are_viewed_and_numbers_are_not() -> None:
    assert [bytes(part) for part in view({"a": "xy", "b": b"z", "c": 7})] == [b"xy", b"z"]


def test_an_array_of_no_length_has_no_view() -> None:
    numpy = pytest.importorskip("numpy")
    assert list(view(numpy.zeros((0, 3)))) == []
    assert [part.nbytes for part in view(numpy.zeros((4, 4))[:, ::2])] == [64]
