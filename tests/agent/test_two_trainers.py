"""Two threads that train side by side in one process: no thread's clock is held against another's."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch

from bottleneck_doctor.agent import loop_without_loader, wire


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the loop without a loader writes."""
    found: list[tuple[object, ...]] = []
    state = SimpleNamespace(
        thread=threading.get_ident, trained=1, close=True, stepping=False,
        row=lambda *values, **more: found.append(values),
    )  # fmt: skip
    monkeypatch.setattr(loop_without_loader, "state", state)
    clock = SimpleNamespace(ask=lambda *a: None, got=lambda *a: None)
    monkeypatch.setattr(loop_without_loader, "device_clock", clock)
    monkeypatch.setattr(loop_without_loader._Loop, "since", 1)
    return found


@pytest.mark.parametrize(("by_another", "heard"), [(False, 1), (True, 0)])
def test_a_forward_pass_answers_only_its_own_threads_backward_pass(
    rows: list[tuple[object, ...]], by_another: bool, heard: int
) -> None:
    model, batch = torch.nn.Linear(2, 2), torch.zeros(1, 2)
    loop_without_loader._await_forward()
    if by_another:
        thread = threading.Thread(target=model, args=(batch,))
        thread.start()
        thread.join()
    model(batch)
    assert [row[0] for row in rows].count(wire.FORWARD) == heard
    assert loop_without_loader._Loop.handle is None, "it listens to one call only"
