"""Copies to the device are noted with what decides about their cost. The device is pretended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.state import state
from tests.agent.meta_device import in_use, look, rows_of, sites_of
from tests.simulated.torch_api import Driver

HOST = torch.ones(5, dtype=torch.float16)
THERE = HOST.to("meta")
COPYING: dict[str, Callable[[], Any]] = {
    "a name": lambda: HOST.to("meta"),
    "a device": lambda: HOST.to(torch.device("meta")),
    "by keyword": lambda: HOST.to(device="meta"),
    "another tensor": lambda: HOST.to(THERE),
    "in place": lambda: THERE.clone().copy_(HOST),
    "a parameter": lambda: torch.nn.Parameter(HOST).to("meta"),
}
STAYING: dict[str, Callable[[], Any]] = {
    "a type": lambda: HOST.to(torch.float32),
    "the host": lambda: HOST.to("cpu"),
    "on the device": lambda: torch.zeros(2, device="meta").to("meta"),
    "cast there": lambda: torch.zeros(2, device="meta").to(torch.float16),
    "from there to there": lambda: torch.zeros(2, device="meta").copy_(torch.ones(2, device="meta")),
    "a module that is there": lambda: torch.nn.Linear(2, 2, device="meta").to("meta"),
}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Driver]:
    with in_use(tmp_path) as found:
        yield found


def bits_of(row: Any) -> set[str]:
    return {name for place, name in enumerate(wire.COPY_BITS) if row.bits >> place & 1}


@pytest.mark.parametrize("way", COPYING)
def test_a_copy_is_noted(way: str, device: Driver, tmp_path: Path) -> None:
    with look():
        COPYING[way]()
    (row,) = rows_of(tmp_path, wire.DEVICE_COPY)
    assert (row.bytes, wire.DTYPES[row.dtype], bits_of(row)) == (10, "float16", {"blocking"})
    assert sites_of(tmp_path)[row.site]["file"] == __file__
    assert rows_of(tmp_path, wire.DEVICE_WAIT) == []


@pytest.mark.parametrize("way", STAYING)
def test_what_stays_is_no_copy(way: str, device: Driver, tmp_path: Path) -> None:
    with look():
        STAYING[way]()
    assert rows_of(tmp_path, wire.DEVICE_COPY) == rows_of(tmp_path, wire.DEVICE_WAIT) == []


@pytest.mark.parametrize(
    ("pinned", "args", "kwargs", "bits"),
    [
        (False, (), {"non_blocking": True}, {"blocking"}),
        (True, (), {"non_blocking": True}, {"pinned"}),
        (True, (None, True), {}, {"pinned"}),
        (True, (), {}, {"pinned", "blocking"}),
    ],
)
def test_only_a_copy_from_pinned_memory_goes_on(
    pinned: bool, args: Any, kwargs: Any, bits: set[str],
    device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: pinned, raising=False)
    with look():
        HOST.to("meta", *args, **kwargs)
    (row,) = rows_of(tmp_path, wire.DEVICE_COPY)
    assert bits_of(row) == bits


@pytest.mark.parametrize(
    ("goes_on", "crossing"), [(True, (10, "float16", {"pinned"})), (False, (40, "float64", {"blocking"}))]
)
def test_a_type_is_changed_before_a_copy_that_blocks_and_after_one_that_goes_on(
    goes_on: bool, crossing: Any, device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True, raising=False)
    with look():
        HOST.to("meta", torch.float64, goes_on)
        HOST.to(device="meta", dtype=torch.float64, non_blocking=goes_on)
        HOST.to(torch.zeros(1, dtype=torch.float64, device="meta"), goes_on)
        torch.zeros(5, dtype=torch.float64, device="meta").copy_(HOST, goes_on)
    rows = rows_of(tmp_path, wire.DEVICE_COPY)
    assert [(row.bytes, wire.DTYPES[row.dtype], bits_of(row)) for row in rows] == [crossing] * 4


def test_what_is_not_contiguous_goes_through_pageable_memory(
    device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True, raising=False)
    image = torch.ones(2, 3, 4, 4)
    with look():
        for one in (image, image.to(memory_format=torch.channels_last), image[:, :, 1:]):
            one.to("meta", non_blocking=True)
    rows = rows_of(tmp_path, wire.DEVICE_COPY)
    assert [bits_of(row) for row in rows] == [{"pinned"}, {"pinned"}, {"blocking"}]


def test_a_line_that_makes_what_it_copies_says_so(device: Driver, tmp_path: Path) -> None:
    with look():
        torch.randn(3).to("meta")
        torch.full((3, 2), 1.0).float().to("meta")
        torch.tensor([3, 4]).to("meta")
        HOST.to(torch.zeros(3, device="meta"))
    rows = rows_of(tmp_path, wire.DEVICE_COPY)
    assert ["just made" in bits_of(row) for row in rows] == [True, True, False, False]


def test_a_copy_on_another_stream_is_told(device: Driver, tmp_path: Path) -> None:
    with look():
        device.stream = 7
        HOST.to("meta")
    (row,) = rows_of(tmp_path, wire.DEVICE_COPY)
    assert "other stream" in bits_of(row)


def test_copies_inside_of_next_are_counted(device: Driver, tmp_path: Path) -> None:
    with look():
        state.inside = SimpleNamespace(thread=0)  # type: ignore[assignment]
        HOST.to("meta")
        state.inside = None
        HOST.to("meta")
    assert ["in next" in bits_of(row) for row in rows_of(tmp_path, wire.DEVICE_COPY)] == [True, False]
    (step,) = rows_of(tmp_path, wire.DEVICE_STEP)
    assert step.copies == 1


def test_a_refused_copy_is_refused_as_by_torch(device: Driver) -> None:
    with look(), pytest.raises(RuntimeError, match="size"):
        torch.zeros(2, device="meta").copy_(torch.zeros(3))
    for unknown in ("unknown", "call", "frame", "which", "source", "goes_on"):
        with look(), pytest.raises(TypeError, match=unknown):
            HOST.to("meta", **{unknown: 1})
    with look(), pytest.raises(TypeError):
        HOST.copy_("no tensor")
    with look(), pytest.raises(TypeError):
        HOST.to(object())
