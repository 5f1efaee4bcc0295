"""Batches are known again by their contents, and by nothing else of them."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import numpy
import pytest
import torch

from bottleneck_doctor.agent.trial.losses import WHOLE_BYTES, checksum

LABELS = torch.arange(8)


def pixels(seed: int) -> torch.Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "batch",
    [
        (pixels(1), LABELS),
        {"x": pixels(1), "y": [1, 2, 3]},
        UserDict({"x": pixels(1)}),
        [pixels(1).bfloat16(), "a text", 2.5],
        (pixels(1).numpy(), LABELS.numpy().astype("float32")[::2]),
        pixels(1).to_sparse().to_dense().t(),
        pixels(1)[:, 1:],
    ],
)
def test_equal_contents_have_one_checksum_and_other_contents_another(batch: Any) -> None:
    changed = torch.zeros(2) if isinstance(batch, torch.Tensor) else (batch, "more")
    assert checksum(batch) == checksum(batch) != 0
    assert checksum(changed) != checksum(batch)


def test_a_tensor_and_its_copy_in_another_layout_are_one_batch() -> None:
    square = torch.randn(4, 4)
    assert checksum((square.t(), LABELS)) == checksum((square.t().contiguous(), LABELS))


def test_the_labels_of_a_batch_are_known_apart_from_its_pixels() -> None:
    one, other = checksum((pixels(1), LABELS)), checksum((pixels(2), LABELS))
    assert one != other
    assert one >> 32 == other >> 32 != checksum((pixels(1), LABELS + 1)) >> 32


def test_of_a_large_part_both_ends_count() -> None:
    large = numpy.zeros(2 * WHOLE_BYTES, dtype="uint8")
    before = checksum([large])
    large[-1] = 1
    assert checksum([large]) != before


def test_what_cannot_be_read_is_nought() -> None:
    assert checksum(object()) == 0
    assert checksum(torch.empty(2, device="meta")) == 0
