"""Multiplications behind a loss are read off real graphs, and reading them computes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from bottleneck_doctor.agent import torch_settings

torch: Any = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def work(loss: Any) -> dict[frozenset[int], float]:
    """Multiplications behind a loss, forward; of one group of tensors that no gradient reaches."""
    return torch_settings.work_behind(loss, {1: set()})[0]


SQUARE = torch.randn(4, 4, requires_grad=True)
IMAGES, SEQUENCES = torch.randn(2, 4, 15, 9), torch.randn(6, 5, 4, requires_grad=True)


@pytest.mark.parametrize(
    ("loss", "multiplications"),
    [
        (nn.Linear(8, 2)(torch.randn(5, 4, 8)), 20 * 8 * 2),
        (SQUARE @ SQUARE, 4 * 4 * 4),
        (SEQUENCES @ SEQUENCES.transpose(1, 2), 6 * 5 * 4 * 5),
        (torch.baddbmm(torch.zeros(6, 5, 5), torch.randn(6, 5, 4), SEQUENCES.transpose(1, 2)), 6 * 5 * 4 * 5),
        ((SEQUENCES @ SEQUENCES.transpose(1, 2)).softmax(-1) @ SEQUENCES, 2 * 6 * 5 * 4 * 5),
        (nn.Conv2d(4, 8, 3, stride=2, padding=1)(IMAGES), 2 * 8 * 8 * 5 * 4 * 3 * 3),
        (nn.Conv2d(4, 6, (3, 1), groups=2)(IMAGES), 2 * 6 * 13 * 9 * 2 * 3),
        (nn.ConvTranspose2d(4, 8, 3)(IMAGES), None),
        (SQUARE.exp(), None),
        (torch.ones(2), None),
    ],
)
def test_products_and_convolutions_are_counted(loss: Any, multiplications: int | None) -> None:
    assert work(loss.sum()) == ({frozenset(): multiplications} if multiplications else {})


def test_a_checkpointed_part_is_not_computed_again() -> None:
    calls = []

    def part(x: Any) -> Any:
        calls.append(1)
        return functional.linear(x, x)

    loss = torch.utils.checkpoint.checkpoint(part, SQUARE, use_reentrant=False).sum()
    assert work(loss) == {frozenset(): 4 * 4 * 4}
    assert len(calls) == 1


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
