"""Counts the padding in a batch of token numbers: a constant that fills rows at one of their ends."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

ROWS_AT_MOST = 64
COLUMNS_AT_MOST = 4096
COLUMNS_AT_LEAST = 8
ELSEWHERE = 0.01  # share of real places that hold the same number: above it, it is no padding


def padding(leaves: Any) -> tuple[int, int]:
    """(places, of these padding) in the first tensor that looks like rows of tokens; (0, 0) without any."""
    for leaf in leaves:
        if hasattr(leaf, "untyped_storage") and _is_tokens(leaf):
            rows = leaf[:ROWS_AT_MOST]
            return rows.numel(), max(_run(rows), _run(rows.flip(1)))
    return 0, 0


def _is_tokens(leaf: Any) -> bool:
    whole = str(leaf.dtype) in ("torch.int64", "torch.int32") and leaf.device.type == "cpu"
    if not whole or leaf.dim() != 2 or len(leaf) < 2:
        return False
    fits = COLUMNS_AT_LEAST <= leaf.shape[1] <= COLUMNS_AT_MOST
    return fits and int(leaf[:ROWS_AT_MOST].max()) > 1  # zeros and ones are a mask, or labels


def _run(rows: Any) -> int:
    """Places at the rows' ends that hold one and the same number, which stands nowhere else to speak of."""
    filler = rows[:, -1].mode().values
    real = (rows != filler).flip(1).cumsum(1).flip(1) > 0  # something real stands here or further on
    inside = int((real & (rows == filler)).sum())
    count = int(real.sum())
    return rows.numel() - count if inside <= ELSEWHERE * max(count, 1) else 0
