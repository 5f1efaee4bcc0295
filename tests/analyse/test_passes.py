"""Epochs and what they took from storage."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.reads import passes_of
from bottleneck_doctor.model.fetches import FetchTable
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable


def test_batches_are_given_to_the_epoch_that_they_came_in() -> None:
    table = FetchTable("1:1")
    for place in range(12):
        table.t.append(float(place))
        table.storage_bytes.append(1000 if place < 6 else 100)
        table.read_bytes.append(1000)
    loop = Loop("1:1", 1, 0, "train", 12, 12.0, 1.0, Epochs([0.0, 6.0, 11.5]), StepTable())
    first, second = passes_of(table, loop)
    assert (first.stored, first.missed) == (1000, 1.0)
    assert (second.stored, second.missed) == (100, pytest.approx(0.1))


def test_readahead_does_not_make_a_share_larger_than_one_and_a_map_has_none() -> None:
    table = FetchTable("1:1", t=[1.0] * 4, storage_bytes=[5000] * 4, read_bytes=[1000] * 4)
    loop = Loop("1:1", 1, 0, "train", 4, 4.0, 1.0, Epochs([0.0]), StepTable())
    assert passes_of(table, loop)[0].missed == 1.0
    table.read_bytes[:] = [0] * 4
    assert passes_of(table, loop)[0].missed is None


def test_bytes_that_were_not_counted_make_no_epoch() -> None:
    table = FetchTable("1:1", t=[1.0] * 4, storage_bytes=[None] * 4, read_bytes=[None] * 4)
    loop = Loop("1:1", 1, 0, "train", 4, 4.0, 1.0, Epochs([0.0]), StepTable())
    assert passes_of(table, loop) == []
