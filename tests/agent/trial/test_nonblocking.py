"""Copies of pinned tensors to the device do not block, and no other call is changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent.trial import prefetch


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


@pytest.mark.parametrize(
    "call", [("cpu",), ("float16",), ("cuda", "float16", False), ("cuda", "float16", True)]
)
def test_other_aims_and_calls_that_say_it_themselves_stay(call: tuple[Any, ...]) -> None:
    torch, told = _torch(pinned=True, on_host=True)
    assert torch.Tensor().to(*call) == {}
    assert torch.Tensor().to("cuda", non_blocking=False) == {"non_blocking": False}
    assert told == []


@pytest.mark.parametrize(("pinned", "on_host"), [(False, True), (True, False)])
def test_pageable_memory_and_the_way_back_stay(pinned: bool, on_host: bool) -> None:
    torch, told = _torch(pinned, on_host)
    assert torch.Tensor().to("cuda") == {}
    assert torch.Tensor().cuda() == {}
    assert told == []
