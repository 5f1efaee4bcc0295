"""Samples in shared memory: they come out as they went in, within their room, in every process."""

from __future__ import annotations

import os
import pickle
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from bottleneck_doctor.agent.trial.sample_store import Store

Pair = namedtuple("Pair", "a b")

SAMPLES: list[Any] = [
    torch.arange(6).view(2, 3),
    torch.arange(6).view(2, 3).t(),
    torch.tensor(3.5),
    torch.empty(0, 4),
    torch.ones(3, dtype=torch.bfloat16),
    torch.tensor([True, False]),
    np.arange(4, dtype=">i2"),
    np.array(["a", "bc"]),
    np.float32(2.5),
    (torch.zeros(2), 7, "label"),
    [torch.ones(1, dtype=torch.uint8), {"x": np.ones((2, 2)), 3: None}],
    b"\x00raw",
    Pair(torch.ones(2), 1),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_sample_comes_out_as_it_went_in(sample: Any) -> None:
    store = Store(4, 1 << 16)
    assert store.put(1, sample)
    (again,) = store.get(1) or ("nothing",)
    _assert_same(sample, again)


def _assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            _assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            _assert_same(left, right)
    else:
        assert one == other


def test_what_is_handed_out_is_a_copy() -> None:
    store = Store(4, 1 << 16)
    store.put(0, torch.zeros(3))
    first = store.get(0)
    assert first is not None
    first[0].fill_(1.0)
    again = store.get(0)
    assert again is not None
    assert again[0].tolist() == [0.0] * 3


def test_what_does_not_fit_is_refused_and_the_rest_is_kept() -> None:
    store = Store(8, 1000)
    assert store.put(1, b"x" * 500)
    assert not store.put(2, b"y" * 600)
    assert store.put(3, b"z" * 100)
    assert (store.get(1), store.get(2), store.get(3)) == ((b"x" * 500,), None, (b"z" * 100,))


def test_no_more_samples_than_there_are_keys_for() -> None:
    store = Store(2, 1 << 16)
    assert [store.put(key, key) for key in range(3)] == [True, True, False]
    assert [store.has(key) for key in range(3)] == [True, True, False]


def test_a_forked_process_adds_for_all() -> None:
    store = Store(100, 1 << 16)
    children = []
    for first in range(2):
        pid = os.fork()
        if not pid:
            status = 0 if all(store.put(key, key * 10) for key in range(first, 100, 2)) else 1
            os._exit(status)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    assert [store.get(key) for key in range(100)] == [(key * 10,) for key in range(100)]


def test_another_process_opens_it_by_what_is_pickled() -> None:
    store = Store(10, 1 << 16)
    store.put(5, "five")
    other = pickle.loads(pickle.dumps(store))
    other.put(6, "six")
    assert (other.get(5), store.get(6)) == (("five",), ("six",))
