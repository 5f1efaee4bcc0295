"""Counts the padding in a batch of sequences: a constant that fills rows at one of their ends.

Rows are of token numbers, or of feature vectors, of which zeros are the padding.
"""

from __future__ import annotations

from .types import Any

ROWS_AT_MOST = 64
COLUMNS_AT_MOST = 4096
COLUMNS_AT_LEAST = 8
NUMBERS_AT_MOST = 1 << 18  # of feature vectors, that are compared with zero: 0.1 to 0.2 ms
ELSEWHERE = 0.01  # share of real places that hold the same number: above it, it is no padding


def padding(leaves: Any) -> tuple[int, int]:
    """(places, of these padding) in the first tensor that looks like rows of tokens, or of feature vectors;
    (0, 0) without any."""
    for leaf in leaves:
        if hasattr(leaf, "untyped_storage"):
            tokens = _is_tokens(leaf)
            rows = leaf[:ROWS_AT_MOST] if tokens else _vectors(leaf)
            if rows is not None:
                sides = (rows, rows.flip(1))
                runs = [_run(side, side[:, -1].mode().values if tokens else 0) for side in sides]
                return rows.numel(), max(runs)
    return 0, 0


def _vectors(leaf: Any) -> Any:
    """Of vectors of floats, by row and place: 0 = all zero, 1 = any other; None where there are no such."""
    if leaf.dim() != 3 or not leaf.is_floating_point() or leaf.device.type != "cpu" or len(leaf) < 2:
        return None
    if not COLUMNS_AT_LEAST <= leaf.shape[1] <= COLUMNS_AT_MOST or not leaf.shape[2]:
        return None
    rows = min(ROWS_AT_MOST, NUMBERS_AT_MOST // (leaf.shape[1] * leaf.shape[2]))
    return (leaf[:rows] != 0).any(2).long() if rows > 1 else None


def _is_tokens(leaf: Any) -> bool:
    whole = str(leaf.dtype) in ("torch.int64", "torch.int32") and leaf.device.type == "cpu"
    if not whole or leaf.dim() != 2 or len(leaf) < 2:
        return False
    fits = COLUMNS_AT_LEAST <= leaf.shape[1] <= COLUMNS_AT_MOST
    return fits and int(leaf[:ROWS_AT_MOST].max()) > 1  # zeros and ones are a mask, or labels


def _run(rows: Any, filler: Any) -> int:
    """Places at the rows' ends that hold the filler, which stands nowhere else to speak of."""
    real = (rows != filler).flip(1).cumsum(1).flip(1) > 0  # something real stands here or further on
    inside = int((real & (rows == filler)).sum())
    count = int(real.sum())
    return rows.numel() - count if inside <= ELSEWHERE * max(count, 1) else 0
