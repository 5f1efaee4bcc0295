"""Calls that copy to the device or wait for it are noted under the user's line. The device is pretended."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottleneck_doctor.agent import device_clock, tensor_hooks, wire
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


def test_a_copy_on_another_stream_or_of_what_its_line_makes_is_marked(device: Driver, tmp_path: Path) -> None:
    with look():
        device.stream = 7
        HOST.to("meta")
        torch.full((3, 2), 1.0).float().to("meta")
        torch.tensor([3, 4]).to("meta")
    copied, made, read = rows_of(tmp_path, wire.DEVICE_COPY)
    assert "other stream" in bits_of(copied)
    assert ["just made" in bits_of(row) for row in (copied, made, read)] == [False, True, False]


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


WAITING: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda one: one.item(),
    "tolist": lambda one: one.tolist(),
    "cpu": lambda one: one.cpu(),
    "to": lambda one: one.to("cpu"),
    "copy_": lambda one: torch.zeros(()).copy_(one),
    "bool": lambda one: bool(one),
    "int": lambda one: int(one),
    "float": lambda one: float(one),
    "index": lambda one: [1, 2][one.long()],
    "nonzero": lambda one: one.nonzero(),
    "mask": lambda one: one.masked_select(one > 0),
    "unique": lambda one: one.unique(),
    "equal": lambda one: one.equal(one),
}


def waits(folder: Path) -> list[str]:
    return [wire.WAITS[row.call] for row in rows_of(folder, wire.DEVICE_WAIT)]


@pytest.mark.parametrize("name", WAITING)
def test_a_wait_is_noted(name: str, device: Driver, tmp_path: Path) -> None:
    on_device = torch.zeros((), device="meta")
    with look():
        WAITING[name](torch.zeros(()))  # on the host nothing waits
        with suppress(RuntimeError, NotImplementedError):  # a meta tensor has no value to read
            WAITING[name](on_device)
    (row,) = rows_of(tmp_path, wire.DEVICE_WAIT)
    assert (wire.WAITS[row.call], sites_of(tmp_path)[row.site]["file"]) == (name, __file__)
    assert min(row.duration, row.device_ns) > 0


@pytest.mark.parametrize("show", [str, repr, "{}".format, "{:s}".format])
def test_a_print_is_one_wait(show: Callable[[Any], str], device: Driver, tmp_path: Path) -> None:
    on_device = torch.zeros(3, device="meta")
    with look(), suppress(TypeError):
        show(on_device)
    assert waits(tmp_path) == ["print"]


def test_a_copy_to_the_host_that_need_not_be_awaited_is_none(device: Driver, tmp_path: Path) -> None:
    on_device = torch.zeros((), device="meta")
    for copy in (
        lambda: on_device.to("cpu", non_blocking=True),
        lambda: torch.zeros(()).copy_(on_device, True),
    ):
        with look(), suppress(NotImplementedError):
            copy()
    assert waits(tmp_path) == []


def test_a_mask_is_noted_in_windows_only(device: Driver, tmp_path: Path) -> None:
    on_device = torch.zeros(3, device="meta")
    mask = on_device > 0
    for window in (None, SimpleNamespace(name=lambda kind, frame: None, trace=True)):
        state.window = window  # type: ignore[assignment]
        with look(), suppress(RuntimeError, NotImplementedError):
            on_device[0]
            on_device[mask]
    assert waits(tmp_path).count("mask") == 1


class Stream:
    def synchronize(self) -> str:
        return "waited"


class Event(Stream):
    pass


def test_synchronize_is_noted_of_streams_events_and_torch(
    device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "meta", SimpleNamespace(Stream=Stream, Event=Event), raising=False)
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: None, raising=False)
    with in_use(tmp_path):
        with look():
            assert Stream().synchronize() == Event().synchronize() == "waited"
            torch._C._cuda_synchronize()
        assert waits(tmp_path) == ["stream", "event", "synchronize"]


@pytest.fixture
def device_allocator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(torch._C, "_cuda_emptyCache", lambda: None, raising=False)
    for name, value in (("last_ns", 0), ("refused", False)):
        monkeypatch.setattr(device_clock._LastReading, name, value)
    with in_use(tmp_path) as found:
        tensor_hooks._set(tensor_hooks.ALWAYS)
        found.books = (1, 20, 3000, 4000)
        yield found


def test_emptying_is_counted_outside_of_looks_too_and_is_a_wait_inside(
    device_allocator: Driver, tmp_path: Path
) -> None:
    torch._C._cuda_emptyCache()
    with look():
        torch._C._cuda_emptyCache()
    assert state.emptied == 2
    assert [wire.WAITS[row.call] for row in rows_of(tmp_path, wire.DEVICE_WAIT)] == ["empty_cache"]
