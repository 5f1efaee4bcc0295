"""What a batch is made of, without touching it."""

from __future__ import annotations

from typing import Any

import pytest
from torch import zeros

from bottleneck_doctor.agent.batch_contents import PARTS_AT_MOST, leaves, sizes, views


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (zeros(10), (1, 40, 0, 4)),
        ([zeros(10), zeros(1)], (2, 44, 0, 4)),
        ({"x": zeros(2), "name": "abc", "raw": b"12345"}, (1, 8, 8, 4)),
        ((zeros(1), [("a", 3)]), (1, 4, 1, 4)),
        (None, (0, 0, 0, 0)),
        ([], (0, 0, 0, 0)),
    ],
)
def test_tensors_and_bytes_are_counted(batch: Any, expected: tuple[int, int, int, int]) -> None:
    assert sizes(batch) == expected


def test_a_batch_of_very_many_parts_is_not_looked_through() -> None:
    assert sizes([zeros(1)] * (PARTS_AT_MOST + 100))[0] == PARTS_AT_MOST


def test_a_batch_that_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert list(leaves(loop)) == [loop]


def test_text_and_bytes_are_viewed_and_numbers_are_not() -> None:
    assert [bytes(part) for part in views({"a": "xy", "b": b"z", "c": 7})] == [b"xy", b"z"]


def test_of_an_unknown_class_nothing_is_read() -> None:
    class Lazy(list[int]):
        def __iter__(self) -> Any:
            raise AssertionError("this may load gigabytes")

    assert sizes(Lazy([1])) == (0, 0, 0, 0)
    assert list(views({"a": Lazy([1])})) == []


def test_an_array_of_no_length_has_no_view() -> None:
    numpy = pytest.importorskip("numpy")
    assert list(views(numpy.zeros((0, 3)))) == []
    assert [part.nbytes for part in views(numpy.zeros((4, 4))[:, ::2])] == [64]
