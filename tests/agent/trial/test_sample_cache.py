"""Samples are kept in memory: each is made once, comes out as it went in, and random numbers are put back."""

from __future__ import annotations

import os
import pickle
import random
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, Sampler, SequentialSampler

from bottleneck_doctor.agent.trial import sample_cache
from bottleneck_doctor.agent.trial.sample_cache import Store
from tests.agent.trial.trying import tried

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


def test_a_number_beyond_the_keys_is_refused() -> None:
    store = Store(2, 1 << 16)
    assert [store.put(key, key) for key in range(-1, 3)] == [False, True, True, False]
    assert [store.has(key) for key in range(-1, 3)] == [False, True, True, False]


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


def _iterator(sampler: object) -> SimpleNamespace:
    return SimpleNamespace(_index_sampler=sampler)


def test_a_run_that_sees_all_samples_wants_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_cache.state, "control", None, raising=False)
    batches = BatchSampler(RandomSampler(range(40)), 8, False)
    assert sample_cache.wanted(_iterator(batches), 40) == range(40)


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_a_short_run_wants_what_the_sampler_will_draw(
    generator: torch.Generator | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_cache, "_steps", lambda: 3)
    batches = BatchSampler(RandomSampler(range(1000), generator=generator), 8, False)
    seen = sample_cache.wanted(_iterator(batches), 1000)
    assert seen is not None
    drawn = [index for batch in batches for index in batch]
    assert list(seen) == drawn[: len(list(seen))]
    assert len(list(seen)) == (3 + sample_cache.SPARE) * 8


def test_without_batches_each_step_wants_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_cache, "_steps", lambda: 5)
    assert list(sample_cache.wanted(_iterator(SequentialSampler(range(99))), 99) or ()) == list(
        range(5 + sample_cache.SPARE)
    )


def test_a_sampler_of_the_users_own_is_not_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Sampler[int]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            raise AssertionError("somebody asked")

    monkeypatch.setattr(sample_cache, "_steps", lambda: 3)
    assert sample_cache.wanted(_iterator(BatchSampler(Own(), 8, False)), 1000) is None


def test_every_source_of_random_numbers_is_put_back() -> None:
    undo = sample_cache.keep_random()
    first = random.random(), float(np.random.rand()), float(torch.rand(()))
    undo()
    assert (random.random(), float(np.random.rand()), float(torch.rand(()))) == first


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["Made", "MadeHere", "MadeSpawned"])
def test_each_sample_is_made_once_and_comes_out_as_it_was(dataset: str) -> None:
    right, made, untouched = tried().said[dataset]
    assert right
    assert made == 12  # samples, in two epochs and a third, whichever worker is asked
    assert untouched, "what a script does to a sample stays out of the memory"
    assert "" in tried().told("cache")


@pytest.mark.slow
def test_the_script_still_sees_its_own_data_set() -> None:
    assert tried().said["still"] == "MadeSpawned"
