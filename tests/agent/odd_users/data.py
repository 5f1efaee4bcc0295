"""Users whose indices and data sets are odd."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Sampler, Subset

from tests.agent.odd_users.rows import Asked, Delegate, Made, Rows, Yields, odd_indices, show, train, user


@user
def indices_of_several_types() -> None:
    odd_indices([1, (2, "flip")], [3, None], [4, "x"], [None, 5], [(0, 1), 6])


@user
def indices_that_cannot_be_hashed() -> None:
    odd_indices([[1, 2], [3]], [0, [4]], [{"row": 1}, 0], [{5}])


@user
def indices_of_numpy_and_torch() -> None:
    odd_indices(
        [numpy.int64(0), 0], [0, numpy.array([1, 2])], [torch.tensor(3), 0], numpy.arange(3), torch.arange(3)
    )


@user
def indices_beyond_integers() -> None:
    odd_indices([0, 1 << 70, -(1 << 65)], [True, False], [0.0, 1.5], [slice(0, 3), 0], [..., 0], [b"key", 0])


class Index(int):
    """Refuses arithmetic."""

    def __mod__(self, other: Any) -> Any:
        raise RuntimeError("no arithmetic on indices")


@user
def indices_that_refuse_arithmetic() -> None:
    odd_indices([Index(0), 0], [0, Index(2)])


@user
def batches_of_indices_that_are_no_lists() -> None:
    odd_indices((0, 1), iter([0, 2]), {0: "a", 1: "b"}, range(4), "ab", collections.deque([0, 1]))


@user
def batches_of_indices_without_indices() -> None:
    odd_indices([], [0], ())


@user
def samplers_without_batches() -> None:
    for workers in (0, 1):
        loader = DataLoader(
            Asked(), batch_size=None, sampler=Yields({"k": 1}, (0, "a"), None, [0]), num_workers=workers
        )
        show(loader)


@user
def samplers_that_fail() -> None:
    class Fails(Sampler):
        def __iter__(self) -> Iterator[int]:
            yield from range(3)
            raise KeyError("sampler")

    for workers in (0, 1):
        try:
            show(DataLoader(Asked(), sampler=Fails(), num_workers=workers))
        except KeyError as error:
            print("KeyError", error)


class NoLength(Rows):
    """Has no length to tell."""

    def __len__(self) -> int:
        raise NotImplementedError("ask the server")


@user
def datasets_without_length() -> None:
    for workers in (0, 1):
        train(DataLoader(NoLength(), sampler=range(20), batch_size=2, num_workers=workers))


class Touchy(Rows):
    """Has no attribute that it does not know, and says so loudly."""

    def __getattr__(self, name: str) -> Any:
        print("asked for", name)
        raise AttributeError(name)


class Furious(Rows):
    """Raises what ``hasattr`` does not catch, but for what torch itself asks."""

    def __getattr__(self, name: str) -> Any:
        if name == "__getitems__":
            raise AttributeError(name)
        raise RuntimeError(name)


@user
def datasets_that_raise_at_unknown_attributes() -> None:
    for kind in (Touchy, Furious):
        train(DataLoader(kind(), batch_size=4))
    train(DataLoader(Furious(), batch_size=4, num_workers=1))


class InBatches(Rows):
    """Asked for whole batches."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        print("batch of", len(indices))
        return [self[index] for index in indices]


@user
def datasets_behind_a_proxy() -> None:
    train(DataLoader(Delegate(InBatches()), batch_size=8))
    train(DataLoader(Delegate(Rows()), batch_size=8))


@user
def datasets_with_slots() -> None:
    class Slots:
        __slots__ = ("rows",)

        def __init__(self) -> None:
            self.rows = [torch.ones(4) * k for k in range(20)]

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, index: int) -> Any:
            return self.rows[index]

    train(DataLoader(Slots(), batch_size=4))


@user
def datasets_that_are_plain_containers() -> None:
    rows = [torch.ones(4) * k for k in range(20)]
    for data in (rows, tuple(rows), dict(enumerate(rows)), torch.stack(rows), numpy.ones((20, 4), "float32")):
        train(DataLoader(data, batch_size=4))
    show(DataLoader("text", batch_size=2))


@user
def datasets_that_count_their_calls() -> None:
    class Counts(Rows):
        calls = 0

        def __getitem__(self, index: Any) -> Any:
            Counts.calls += 1
            return super().__getitem__(index)

    train(DataLoader(Counts(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)))
    print(Counts.calls)


@user
def datasets_of_datasets() -> None:
    data = ConcatDataset([Subset(Rows(), range(0, 40, 2)), Rows(10)])
    train(DataLoader(data, batch_size=4, num_workers=1))


@user
def datasets_that_fail() -> None:
    def make(index: int) -> Any:
        if index == 13:
            raise ValueError("row 13 is damaged")
        return torch.ones(4)

    for workers in (0, 1):
        try:
            train(DataLoader(Made(make), batch_size=2, num_workers=workers))
        except ValueError as error:
            print("ValueError", str(error).splitlines()[-1] if workers else error)


@user
def streams_that_end_oddly() -> None:
    class Stream(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            yield from (torch.full((4,), float(k)) for k in range(7))

    for workers in (0, 1):
        train(DataLoader(Stream(), batch_size=3, num_workers=workers))
        train(DataLoader(Stream(), batch_size=3, num_workers=workers, drop_last=True))
        show(DataLoader(Stream(), batch_size=None, num_workers=workers), 1)
