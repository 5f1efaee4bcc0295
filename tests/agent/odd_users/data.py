"""Users whose indices and data sets are odd."""

from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader

from tests.agent.odd_users.rows import Asked, Delegate, Rows, Yields, odd_indices, show, train, user


class Index(int):
    """Refuses arithmetic."""

    def __mod__(self, other: Any) -> Any:
        raise RuntimeError("no arithmetic on indices")


@user
def indices_of_all_types() -> None:
    odd_indices([1, (2, "flip")], [3, None], [[1, 2], [3]], [{"row": 1}, 0], [{5}], [0, numpy.array([1, 2])])
    odd_indices([torch.tensor(3), 0], [0, 1 << 70, -(1 << 65)], [0.0, ...], [slice(0, 3), b"key"], [Index(2)])


@user
def batches_of_indices_that_are_no_lists() -> None:
    odd_indices((0, 1), iter([0, 2]), {0: "a", 1: "b"}, range(4), "ab", [], numpy.arange(3), torch.arange(3))


@user
def samplers_without_batches() -> None:
    for workers in (0, 1):
        loader = DataLoader(
            Asked(), batch_size=None, sampler=Yields({"k": 1}, (0, "a"), None, [0]), num_workers=workers
        )
        show(loader)


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
def datasets_that_count_their_calls() -> None:
    class Counts(Rows):
        calls = 0

        def __getitem__(self, index: Any) -> Any:
            Counts.calls += 1
            return super().__getitem__(index)

    train(DataLoader(Counts(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)))
    print(Counts.calls)
