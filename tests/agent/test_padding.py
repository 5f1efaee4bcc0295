"""Padding is told from tokens, masks, labels and counts."""

from __future__ import annotations

from typing import Any

import pytest

from bottleneck_doctor.agent.batch_contents import padding

torch = pytest.importorskip("torch")


def sentences(left: bool = False, filler: int = 0) -> Any:
    """Eight rows of 20 places, row n with 2n+2 real ones."""
    rows = torch.full((8, 20), filler)
    for place in range(8):
        real = torch.randint(5, 90, (2 * place + 2,))
        if left:
            rows[place, 20 - len(real) :] = real
        else:
            rows[place, : len(real)] = real
    return rows


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("filler", [0, -100, 99])
def test_what_fills_rows_at_an_end_is_padding(left: bool, filler: int) -> None:
    assert padding([sentences(left, filler)]) == (160, 160 - sum(range(2, 17, 2)))


def test_whole_rows_of_tokens_have_hardly_any() -> None:
    places, padded = padding([torch.randint(0, 1000, (64, 32))])
    assert places == 2048
    assert padded <= 4


@pytest.mark.parametrize("left", [False, True])
def test_vectors_of_zeros_at_an_end_are_padding(left: bool) -> None:
    tokens = sentences(left)
    vectors = torch.randn(8, 20, 3) * (tokens != 0).unsqueeze(2)
    assert padding([vectors]) == padding([tokens])


def test_margins_of_pictures_are_no_padding() -> None:
    pictures = torch.zeros(8, 28, 28)
    pictures[:, 4:16, 4:24] = torch.rand(8, 12, 20) + 0.1
    assert padding([pictures])[1] == 0


@pytest.mark.parametrize(
    "batch",
    [
        torch.randn(8, 20),
        torch.randn(8, 3, 20, 20),
        torch.randint(0, 2, (8, 20)),  # a mask, or labels
        torch.arange(160),
        torch.zeros(8, 3, dtype=torch.int64),
        torch.zeros(0, 20, dtype=torch.int64),
        "text",
    ],
)
def test_other_batches_are_not_rows_of_tokens(batch: Any) -> None:
    assert padding([batch]) == (0, 0)


def test_counts_of_words_are_mostly_zero_and_not_padded() -> None:
    counts = (torch.rand(64, 40) < 0.1).long() * torch.randint(2, 9, (64, 40))
    assert padding([counts])[1] == 0


def test_the_batch_stays_as_it_is() -> None:
    rows = sentences()
    before = rows.clone()
    padding([rows])
    assert torch.equal(rows, before)
