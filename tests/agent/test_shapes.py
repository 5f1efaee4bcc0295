"""Shapes are read off real graphs, and reading them computes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import torch_settings
from bottleneck_doctor.agent.state import state
from tests.agent.watching import PRELUDE, profile_of, said, watched

torch: Any = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional
Read = Callable[[Any], list[dict[str, Any]]]
SIDES = {"device": "cpu", "dtype": "float32", "inputs": True, "calls": 1}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """The facts that a loss leaves, each with its name as its kind."""
    facts: list[dict[str, Any]] = []
    writer = SimpleNamespace(fact=lambda fact, **said: facts.append({"kind": fact, **said}))
    monkeypatch.setattr(state, "writer", writer, False)

    def noted(loss: Any) -> list[dict[str, Any]]:
        facts.clear()
        torch_settings.note_shapes(loss)
        return list(facts)

    return noted


def test_layers_of_one_shape_are_counted_together(read: Read) -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 2))
    first, second, last = sorted(read(model(torch.randn(5, 4, 8)).sum()), key=lambda one: -one["calls"])
    product = {**SIDES, "kind": "product", "batch": 0, "m": 20, "k": 8, "n": 8}
    assert first == {**product, "calls": 2}
    assert second in ({**product, "inputs": False}, {**product, "n": 2})
    assert last in ({**product, "inputs": False}, {**product, "n": 2})


def test_a_convolutions_input_is_known_or_follows_from_its_result(read: Read) -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.Conv2d(8, 6, (3, 1), groups=2))
    by_hand, known = sorted(
        read(model(torch.randn(2, 4, 15, 9)).sum()), key=lambda one: one["weight"], reverse=True
    )
    assert list(by_hand["input"]) == [2, 4, 15, 9]
    assert not by_hand["inputs"]
    listed = {name: list(one) if isinstance(one, tuple) else one for name, one in known.items()}
    assert listed == {
        **SIDES, "kind": "convolution", "input": [2, 8, 8, 5], "weight": [6, 4, 3, 1], "stride": [1, 1],
        "padding": [0, 0], "dilation": [1, 1], "groups": 2,
    }  # fmt: skip


def attention(masked: bool, dropout: float, scale: float) -> Any:
    q, k, v = (torch.randn(2, 3, length, 4, requires_grad=True) for length in (5, 7, 7))
    scores = q @ k.transpose(-2, -1) / scale
    if masked:
        scores = scores.masked_fill(torch.ones(5, 7, dtype=torch.bool).triu(1), -1e9)
    return (functional.dropout(scores.softmax(-1), dropout) @ v).sum()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_by_hand_is_known_by_its_softmax_between_products(
    read: Read, masked: bool, dropout: float
) -> None:
    found = [one for one in read(attention(masked, dropout, 2.0)) if one["kind"] == "attention"]
    assert found == [{
        "kind": "attention", "device": "cpu", "dtype": "float32", "calls": 1, "batch": 6, "queries": 5,
        "keys": 7, "width": 4, "value_width": 4, "between": 1 + masked, "masked": masked,
        "dropout": dropout > 0,
    }]  # fmt: skip


def test_fused_attention_is_no_attention_by_hand(read: Read) -> None:
    q = torch.randn(2, 3, 5, 4, requires_grad=True)
    assert read(functional.scaled_dot_product_attention(q, q, q).sum()) == []


def test_a_checkpointed_part_is_not_computed_again(read: Read) -> None:
    calls = []

    def part(x: Any) -> Any:
        calls.append(1)
        return functional.linear(x, x)

    x = torch.randn(4, 4, requires_grad=True)
    loss = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False).sum()
    assert [one["kind"] for one in read(loss)] == ["product"]
    assert len(calls) == 1


@pytest.mark.parametrize("loss", [None, 3.0, torch.ones(2), [torch.ones(2)]])
def test_what_is_no_loss_leaves_nothing(read: Read, loss: Any) -> None:
    assert read(loss) == []


def test_a_training_leaves_its_shapes_and_its_tensors_sizes(tmp_path: Path) -> None:
    script = PRELUDE + "for batch in DataLoader(Rows(64), batch_size=4):\n    train_on(batch)\nsay(end=1)\n"
    told = watched(tmp_path, script)
    said(told)
    computing = profile_of(told).computing
    (product,) = computing.shapes.products
    assert (product.m, product.k, product.n, product.batch, product.inputs) == (4, 4, 1, 0, False)
    (optimizer,) = computing.optimizers
    assert sorted(tuple(one) for one in optimizer.sizes) == [(1, 1), (4, 1)]
    assert optimizer.options["momentum"] == 0.0
    assert "lr" not in optimizer.options


def test_work_whose_gradients_no_optimizer_uses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher of four times the student's width, with gradients switched on; its inputs get none."""
    student, teacher, head = nn.Linear(8, 16), nn.Linear(8, 64), nn.Linear(64, 1)
    x = torch.randn(5, 8)
    held: set[int] = set()
    monkeypatch.setattr(torch_settings.optimizers, "trained", lambda: held)

    def share(loss: Any, *trained: Any) -> float | None:
        held.clear()
        held.update(id(one) for module in trained for one in module.parameters())
        return torch_settings.unused_share(loss)

    both = student(x).sum() + teacher(x).sum()
    assert share(both, student) == pytest.approx(64 / 80)
    assert share(both, student, teacher) == 0.0
    assert share(both) is None, "before an optimizer has stepped"
    assert share(both, head) is None, "an optimizer of another loss"
    with torch.no_grad():
        targets = teacher(x).sum()
    assert share(student(x).sum() + targets, student) == 0.0
    assert share(head(teacher(student(x) @ torch.randn(16, 8))).sum(), student) == 0.0, "passed through"
