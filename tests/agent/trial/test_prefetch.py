"""Batches are made or copied ahead, in their order, each once; pinned copies are not waited for."""

from __future__ import annotations

import contextlib
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent.state import state
from bottleneck_doctor.agent.trial import prefetch
from bottleneck_doctor.agent.trial.hook_points import LOADER


class Tensor:
    """Of one number, in pinned memory or on the device."""

    def __init__(self, number: int, place: str, log: list[str]) -> None:
        self.number, self.place, self.log = number, place, log
        self.is_cpu, self.is_cuda = place == "cpu", place == "cuda:1"

    def is_pinned(self) -> bool:
        return True

    def to(self, place: str, non_blocking: bool) -> Tensor:
        self.log.append(f"copy {self.number}{' and go on' if non_blocking else ''}")
        return Tensor(self.number, place, self.log)

    def record_stream(self, stream: str) -> None:
        self.log.append(f"{stream} uses {self.number}")


class Batches:
    """A loader's iterator."""

    def __init__(self, count: int, log: list[str]) -> None:
        self.left, self.log = iter(range(count)), log

    def __next__(self) -> Any:
        return [Tensor(next(self.left), "cpu", self.log), "label"]

    def _reset(self, count: int) -> None:
        self.left = iter(range(10, 10 + count))


@pytest.fixture
def log() -> list[str]:
    return []


class Stream:
    """Of the device's work."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def __str__(self) -> str:
        return self.name

    def wait_stream(self, other: Stream) -> None:
        self.log.append(f"{self} waits for {other}")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> SimpleNamespace:
    @contextlib.contextmanager
    def stream(one: Stream) -> Iterator[None]:
        log.append(f"on {one}")
        yield

    cuda = SimpleNamespace(
        Stream=lambda device: Stream(f"side {device}", log),
        stream=stream,
        current_stream=lambda device: Stream(f"main {device}", log),
    )
    monkeypatch.setattr(state, "accelerator", SimpleNamespace(kind="cuda", index=1), raising=False)
    fake = SimpleNamespace(cuda=cuda, Tensor=Tensor, is_grad_enabled=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", fake)  # type: ignore[arg-type]
    return fake


@pytest.fixture
def batches(torch: SimpleNamespace) -> Callable[[int, list[str]], Batches]:
    class Fresh(Batches):
        pass

    table = prefetch.device_ahead({}, lambda why="": None)
    table[LOADER](SimpleNamespace(_BaseDataLoaderIter=Fresh))
    return Fresh


def numbers(iterator: Batches, at_most: int = 99) -> list[int]:
    found = []
    for _ in range(at_most):
        try:
            found.append(next(iterator)[0].number)  # type: ignore[call-overload]
        except StopIteration:
            break
    return found


def test_batches_come_in_order_each_once(batches: Callable[..., Batches], log: list[str]) -> None:
    assert numbers(batches(4, log)) == [0, 1, 2, 3]


def test_the_next_copy_begins_before_the_batch_is_given_and_is_not_waited_for(
    batches: Callable[..., Batches], log: list[str]
) -> None:
    first = next(batches(3, log))  # type: ignore[call-overload]
    assert first[0].is_cuda
    assert first[1] == "label"
    assert log == [
        "on side cuda:1", "copy 0 and go on", "main cuda:1 waits for side cuda:1", "main cuda:1 uses 0",
        "on side cuda:1", "copy 1 and go on",
    ]  # fmt: skip


def test_what_goes_wrong_ahead_is_raised_in_its_turn(batches: Callable[..., Batches], log: list[str]) -> None:
    iterator = batches(1, log)
    iterator.left = (number if number < 1 else 1 // 0 for number in range(3))
    assert numbers(iterator, 1) == [0]
    with pytest.raises(ZeroDivisionError):
        next(iterator)  # type: ignore[call-overload]


def test_without_a_device_in_use_or_where_no_gradients_are_recorded_nothing_is_moved(
    torch: SimpleNamespace, batches: Callable[..., Batches], log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.is_grad_enabled = lambda: False
    assert numbers(batches(2, log)) == [0, 1]
    torch.is_grad_enabled = lambda: True
    monkeypatch.setattr(state, "accelerator", None)
    assert numbers(batches(2, log)) == [0, 1]
    assert log == []


def test_tensors_are_found_in_containers_of_the_usual_kinds(torch: SimpleNamespace, log: list[str]) -> None:
    batch = Pair({"x": [Tensor(1, "cpu", log), "a"]}, (Tensor(2, "cpu", log), 3))
    assert prefetch.each_tensor(batch, lambda one: one.number) == Pair({"x": [1, "a"]}, (2, 3))


Pair = namedtuple("Pair", "images labels")


def _torch(pinned: bool, on_host: bool) -> tuple[Any, list[str]]:
    class Tensor:
        is_cpu = on_host
        device = "cuda:0"

        def is_pinned(self) -> bool:
            return pinned

        def to(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return kwargs

        def cuda(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return kwargs

    told: list[str] = []
    torch = SimpleNamespace(Tensor=Tensor, version=SimpleNamespace(cuda="12.8"))
    prefetch.nonblocking({}, lambda why="": told.append(why))["torch"](torch)
    return torch, told


@pytest.mark.parametrize("call", [("cuda",), ("cuda:1", "float16"), (0,)])
def test_a_pinned_tensor_goes_to_the_device_without_waiting(call: tuple[Any, ...]) -> None:
    torch, told = _torch(pinned=True, on_host=True)
    assert torch.Tensor().to(*call) == {"non_blocking": True}
    assert torch.Tensor().to(torch.Tensor()) == {"non_blocking": True}
    assert torch.Tensor().cuda() == {"non_blocking": True}
    assert told == [""] * 3
    assert torch.Tensor().to("cpu") == {}
    assert torch.Tensor().to("cuda", non_blocking=False) == {"non_blocking": False}, "as the script says"


@pytest.mark.parametrize(("pinned", "on_host"), [(False, True), (True, False)])
def test_pageable_memory_and_the_way_back_stay(pinned: bool, on_host: bool) -> None:
    torch, told = _torch(pinned, on_host)
    assert torch.Tensor().to("cuda") == {}
    assert torch.Tensor().cuda() == {}
    assert told == []
