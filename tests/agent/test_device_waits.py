"""Calls that wait for the device are noted once each, under the user's line. The device is pretended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottleneck_doctor.agent import tensor_hooks, wire
from bottleneck_doctor.agent.state import state
from tests.agent.meta_device import in_use, look, rows_of, sites_of
from tests.simulated.torch_api import Driver

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


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Driver]:
    with in_use(tmp_path) as found:
        yield found


def waits(folder: Path) -> list[str]:
    return [wire.WAITS[row.call] for row in rows_of(folder, wire.DEVICE_WAIT)]


@pytest.mark.parametrize("name", WAITING)
def test_a_wait_is_noted(name: str, device: Driver, tmp_path: Path) -> None:
    on_device = torch.zeros((), device="meta")
    with look(), suppress(RuntimeError, NotImplementedError):  # a meta tensor has no value to read
        WAITING[name](on_device)
    assert waits(tmp_path) == [name]


@pytest.mark.parametrize("name", WAITING)
def test_on_the_host_nothing_waits(name: str, device: Driver, tmp_path: Path) -> None:
    with look():
        WAITING[name](torch.zeros(()))
    assert waits(tmp_path) == []
    assert tensor_hooks.patches.sampled == 1


@pytest.mark.parametrize("show", [str, repr, "{}".format, "{:s}".format])
def test_a_print_is_one_wait(show: Callable[[Any], str], device: Driver, tmp_path: Path) -> None:
    on_device = torch.zeros(3, device="meta")
    with look(), suppress(TypeError):
        show(on_device)
    assert waits(tmp_path) == ["print"]


def test_a_wait_has_the_users_line(device: Driver, tmp_path: Path) -> None:
    with look(), suppress(RuntimeError):
        torch.zeros((), device="meta").item()
    (row,) = rows_of(tmp_path, wire.DEVICE_WAIT)
    site = sites_of(tmp_path)[row.site]
    assert site["file"] == __file__
    assert 'device="meta").item()' in Path(__file__).read_text().splitlines()[site["line"] - 1]
    assert 0 < row.duration
    assert row.device_ns > 0


def test_the_gradient_scalers_own_readback_is_not_the_users_line(device: Driver, tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu")
    found = {"found_inf_per_device": {torch.device("meta"): torch.zeros((), device="meta")}}
    with look(), suppress(RuntimeError):
        scaler._maybe_opt_step(torch.optim.SGD([torch.zeros(1)]), found)
    (row,) = rows_of(tmp_path, wire.DEVICE_WAIT)
    assert sites_of(tmp_path)[row.site]["file"].endswith("torch/amp/grad_scaler.py")


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


def test_a_loop_that_indexes_much_is_left_alone_in_windows(device: Driver) -> None:
    state.window = SimpleNamespace(name=lambda kind, frame: None, trace=True)  # type: ignore[assignment]
    hooked = []
    for _ in range(3):
        with look():
            hooked.append(type(vars(torch.Tensor).get("__getitem__")) is tensor_hooks.HookedMethod)
            list(map(torch.ones(600).__getitem__, range(600)))
    assert hooked == [True, False, False]


def test_in_a_window_a_wait_has_its_name_in_the_trace(device: Driver, tmp_path: Path) -> None:
    named: list[str] = []

    def name(kind: str, frame: Any) -> Any:
        named.append("%s#%d" % (kind, state.site(kind, frame)))
        return lambda: named.append("end")

    state.window = SimpleNamespace(name=name, trace=True)  # type: ignore[assignment]
    with look(), suppress(RuntimeError):
        torch.zeros((), device="meta").item()
    (row,) = rows_of(tmp_path, wire.DEVICE_WAIT)
    assert named == [f"wait#{row.site}", "end"]


class Stream:
    def synchronize(self) -> str:
        return "waited"


class Event(Stream):
    pass


def test_a_streams_and_an_events_synchronize_are_noted(
    device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "meta", SimpleNamespace(Stream=Stream, Event=Event), raising=False)
    with in_use(tmp_path):
        with look():
            assert Stream().synchronize() == Event().synchronize() == "waited"
        assert waits(tmp_path) == ["stream", "event"]


def test_torchs_synchronize_is_noted(device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: None, raising=False)
    with in_use(tmp_path):
        with look():
            torch._C._cuda_synchronize()
        assert waits(tmp_path) == ["synchronize"]
