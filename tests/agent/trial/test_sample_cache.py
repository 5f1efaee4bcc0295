"""Samples are kept in memory: each is made once, comes out as it went in, and random numbers are put back."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler

from bottleneck_doctor.agent.trial import from_memory


@pytest.mark.parametrize(
    ("most_bytes", "ranks", "kept"), [(1000, "", [3, 1, 2]), (99, "", [3]), (320, "2", [3, 1])]
)
def test_what_finds_no_room_is_not_kept(
    most_bytes: int, ranks: str, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks of one machine share its room."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    dataset = [torch.full((10,), index) for index in range(4)]
    found: dict[int, torch.Tensor] = {}
    assert from_memory._make(found, [3, 1, 2], dataset, DataLoader(dataset), most_bytes) is (len(kept) == 3)
    assert {index: sample.tolist() for index, sample in found.items()} == {one: [one] * 10 for one in kept}


def _iterator(sampler: object) -> SimpleNamespace:
    return SimpleNamespace(_index_sampler=sampler)


def test_a_run_that_sees_all_samples_wants_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_memory.state, "control", None, raising=False)
    batches = BatchSampler(RandomSampler(range(40)), 8, False)
    assert from_memory.wanted(_iterator(batches), 40) == range(40)


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_a_short_run_wants_what_the_sampler_will_draw(
    generator: torch.Generator | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_memory, "_steps", lambda: 3)
    batches = BatchSampler(RandomSampler(range(1000), generator=generator), 8, False)
    seen = from_memory.wanted(_iterator(batches), 1000)
    assert seen is not None
    drawn = [index for batch in batches for index in batch]
    assert list(seen) == drawn[: len(list(seen))]
    assert len(list(seen)) == (3 + from_memory.SPARE) * 8


def test_a_sampler_of_the_users_own_is_not_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Sampler[int]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            raise AssertionError("somebody asked")

    monkeypatch.setattr(from_memory, "_steps", lambda: 3)
    assert from_memory.wanted(_iterator(BatchSampler(Own(), 8, False)), 1000) is None


def test_every_source_of_random_numbers_is_put_back() -> None:
    undo = from_memory.keep_random()
    first = random.random(), float(np.random.rand()), float(torch.rand(()))
    undo()
    assert (random.random(), float(np.random.rand()), float(torch.rand(()))) == first
