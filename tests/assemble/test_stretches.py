"""Stretches of time, joined and cut; checked against counting microseconds one by one."""

from __future__ import annotations

import random
from itertools import pairwise

from bottleneck_doctor.assemble.elapsed import gaps, joined, length, shared


def counted(stretches: list[tuple[float, float]]) -> set[int]:
    return {one for begin, end in stretches for one in range(int(begin), int(end))}


def test_they_agree_with_counting() -> None:
    luck = random.Random(3)
    for _ in range(300):
        raw = [(float(one), float(one + luck.randrange(6))) for one in luck.choices(range(60), k=12)]
        begin, end = sorted(luck.choices(range(70), k=2))
        whole, window = joined(raw), counted([(begin, end)])
        assert counted(whole) == counted(raw)
        assert all(first[1] < last[0] for first, last in pairwise(whole))
        assert counted(shared(whole, begin, end)) == counted(raw) & window
        assert counted(gaps(whole, begin, end)) == window - counted(raw)
        assert length(whole) == len(counted(raw))


def test_nothing_is_left_of_nothing() -> None:
    assert joined([(3.0, 3.0)]) == []
    assert gaps([], 1.0, 2.0) == [(1.0, 2.0)]
    assert shared([], 1.0, 2.0) == []
