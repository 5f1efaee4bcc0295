"""Users whose samples and batches are odd."""

from __future__ import annotations

import collections
import dataclasses
import functools
import unittest.mock
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch.utils.data import DataLoader

from tests.agent.odd_users.rows import Made, Rows, collate_list, show, train, user


class Loud:
    """Prints whenever somebody asks it for something."""

    def __init__(self, index: int) -> None:
        self.__dict__["index"] = index

    def __getattr__(self, name: str) -> Any:
        print("sample asked for", name)
        raise AttributeError(name)

    def __len__(self) -> int:
        print("sample asked for its length")
        return 1

    def __iter__(self) -> Iterator[Any]:
        print("sample iterated")
        return iter(())

    def __bool__(self) -> bool:
        print("sample asked whether it is true")
        return True


class LoudList(list):
    """A list that prints when it is iterated."""

    def __iter__(self) -> Iterator[Any]:
        print("list iterated")
        return super().__iter__()


class LoudDict(dict):
    """A dictionary that loads when its values are asked for."""

    def values(self) -> Any:
        print("values loaded")
        return super().values()


@user
def samples_that_print_when_touched() -> None:
    for kind in (Loud, lambda k: LoudList([k]), lambda k: LoudDict(k=k)):
        count = 0
        for _ in range(2):
            for _ in DataLoader(Made(kind), batch_size=4, collate_fn=collate_list):
                count += 1
        print(count)


class Liar:
    """Says that it is a tensor."""

    @property
    def __class__(self) -> Any:
        return torch.Tensor


class Broken:
    """Raises at everything."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@user
def samples_that_lie_or_raise() -> None:
    for make in (lambda k: Liar(), lambda k: Broken(), lambda k: unittest.mock.MagicMock()):
        print(sum(len(batch) for batch in DataLoader(Made(make), batch_size=4, collate_fn=collate_list)))


@user
def samples_that_hold_themselves() -> None:
    def make(index: int) -> Any:
        sample: list[Any] = [index]
        sample.append(sample)
        return sample

    print(sum(len(batch) for batch in DataLoader(Made(make), batch_size=4, collate_fn=collate_list)))


class Heard(torch.Tensor):
    """Counts the functions of torch that are called on it."""

    calls: ClassVar[collections.Counter[str]] = collections.Counter()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls[getattr(func, "__name__", str(func))] += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@user
def samples_of_a_tensor_subclass() -> None:
    train(DataLoader(Made(lambda k: torch.full((4,), float(k)).as_subclass(Heard)), batch_size=4))
    show(DataLoader([torch.ones(2).as_subclass(Heard)] * 4, batch_size=2, collate_fn=collate_list))
    print(sorted(Heard.calls.items()))


@user
def samples_of_unusual_tensors() -> None:
    makers = {
        "sparse": lambda k: torch.eye(4).to_sparse(),
        "csr": lambda k: torch.eye(4).to_sparse_csr(),
        "meta": lambda k: torch.empty(4, device="meta"),
        "bfloat16": lambda k: torch.ones(4, dtype=torch.bfloat16),
        "conjugated": lambda k: torch.ones(4, dtype=torch.complex64).conj(),
        "negative": lambda k: torch.ones(4, dtype=torch.complex64).conj().imag,
        "expanded": lambda k: torch.ones(1).expand(1000),
        "quantized": lambda k: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
        "scalar": lambda k: torch.tensor(1.0),
        "empty": lambda k: torch.empty(0, 4),
        "learning": lambda k: torch.ones(4, requires_grad=True),
        "parameter": lambda k: torch.nn.Parameter(torch.ones(4)),
        "inference": lambda k: _inferred(),
        "nested": lambda k: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    }
    for name, make in makers.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = DataLoader(Made(make), batch_size=4, collate_fn=collate_list)
            print(name, sum(len(batch) for _ in range(2) for batch in loader))


def _inferred() -> Any:
    with torch.inference_mode():
        return torch.ones(4)


@dataclasses.dataclass
class Batch:
    """A batch of a class of its own."""

    rows: Any

    def pin_memory(self) -> Batch:
        print("pinned")
        return self


def collate_batch(samples: list[Any]) -> Batch:
    """Samples to a batch of a class of its own."""
    return Batch(torch.stack(samples))


class Collate:
    """A callable with slots, which refuses unknown attributes."""

    __slots__ = ()

    def __call__(self, samples: list[Any]) -> Any:
        return torch.stack(samples)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@user
def batches_of_a_class_of_their_own() -> None:
    for workers in (0, 1):
        train(
            DataLoader(Rows(), 4, collate_fn=collate_batch, num_workers=workers),
            read=lambda batch: batch.rows,
        )
        train(DataLoader(Rows(), 4, collate_fn=Collate(), num_workers=workers))
    train(DataLoader(Rows(), 4, collate_fn=functools.partial(torch.stack, dim=0)))


@user
def iterators_as_batches_are_not_consumed() -> None:
    loader = DataLoader(Rows(), batch_size=4, collate_fn=lambda samples: (one for one in samples))
    print(sum(len(list(batch)) for batch in loader))
