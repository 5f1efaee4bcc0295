"""The allocator's books are read now and then, and emptying its cache is counted. The device is pretended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bottleneck_doctor.agent import device_clock, tensor_hooks, wire
from bottleneck_doctor.agent.state import state
from tests.agent.meta_device import in_use, look, rows_of
from tests.simulated.torch_api import Driver


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(torch._C, "_cuda_emptyCache", lambda: None, raising=False)
    for name, value in (("last_ns", 0), ("refused", False)):
        monkeypatch.setattr(device_clock._LastReading, name, value)
    with in_use(tmp_path) as found:
        tensor_hooks._set(tensor_hooks.ALWAYS)
        found.books = (1, 20, 3000, 4000)
        yield found


def test_a_second_apart_at_most_once(device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for past_ns in (0, device_clock.EVERY_NS - 1, device_clock.EVERY_NS):
        monkeypatch.setattr(device_clock, "now", lambda: 10**12 + past_ns)  # noqa: B023
        with look():
            torch._C._cuda_emptyCache()
    rows = rows_of(tmp_path, wire.ALLOCATOR)
    assert [row[2:7] for row in rows] == [(1, 20, 0, 3000, 4000), (1, 20, 2, 3000, 4000)]


def test_emptying_is_counted_outside_of_looks_too_and_is_a_wait_inside(
    device: Driver, tmp_path: Path
) -> None:
    torch._C._cuda_emptyCache()
    with look():
        torch._C._cuda_emptyCache()
    assert state.emptied == 2
    assert [wire.WAITS[row.call] for row in rows_of(tmp_path, wire.DEVICE_WAIT)] == ["empty_cache"]


def test_once_graphs_are_compiled_nobody_counts(device: Driver, tmp_path: Path) -> None:
    emptying = torch._C._cuda_emptyCache
    tensor_hooks._compiles()
    assert torch._C._cuda_emptyCache is not emptying
    with look():
        pass
    assert [row.emptied for row in rows_of(tmp_path, wire.ALLOCATOR)] == [wire.NOTHING]
    assert torch._C._cuda_emptyCache is not emptying


def test_a_device_without_books_goes_on(device: Driver, tmp_path: Path) -> None:
    device.books = None
    for _ in range(2):
        with look():
            pass
    assert device_clock._LastReading.refused
    assert state.accelerator is not None
    assert len(rows_of(tmp_path, wire.DEVICE_STEP)) == 2
