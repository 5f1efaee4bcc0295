"""Two threads that train side by side in one process: no thread's clock is held against another's."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch

from bottleneck_doctor.agent import patch_training


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the loop without a loader writes."""
    found: list[tuple[object, ...]] = []
    state = SimpleNamespace(
        thread=threading.get_ident, optimizer_steps=1, row=lambda *values, **more: found.append(values)
    )
    monkeypatch.setattr(patch_training, "state", state)
    monkeypatch.setattr(
        patch_training, "device_clock", SimpleNamespace(ask=lambda *a: None, got=lambda *a: None)
    )
    return found


@pytest.mark.parametrize(("by_another", "heard"), [(False, 1), (True, 0)])
def test_a_forward_pass_answers_only_its_own_threads_optimizer_step(
    rows: list[tuple[object, ...]], by_another: bool, heard: int
) -> None:
    model, batch = torch.nn.Linear(2, 2), torch.zeros(1, 2)
    patch_training._await_forward(0)
    if by_another:
        thread = threading.Thread(target=model, args=(batch,))
        thread.start()
        thread.join()
    model(batch)
    assert len(rows) == heard
    assert patch_training._Open.handle is None, "it listens to one call only"
