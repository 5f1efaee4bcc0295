"""A fetch is watched without a trace, and seldom enough."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import fetch as agent_fetch
from bottleneck_doctor.agent import wire, worker
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import ProcessLog, read_logs


@pytest.fixture(autouse=True)
def _worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is a worker for the length of a test."""
    state.begin(str(tmp_path))
    state.worker = True
    monkeypatch.setattr(agent_fetch, "ledger", agent_fetch.Ledger())
    yield
    state.begin(str(tmp_path))


def fetcher(get: Callable[[int], Any], length: int = 8) -> Any:
    """A map-style fetcher as torch builds it."""

    class Data:
        def __len__(self) -> int:
            return length

        def __getitem__(self, index: int) -> Any:
            return get(index)

    return SimpleNamespace(dataset=Data(), collate_fn=list, auto_collation=True)


def plain(self: Any, indices: list[int]) -> Any:
    return self.collate_fn([self.dataset[index] for index in indices])


def slow(index: int) -> bytes:
    time.sleep(0.0022)
    return b"sample %d" % index


def log(folder: Path) -> ProcessLog:
    return read_logs(folder)[-1]


def test_the_fetcher_is_as_it_was_afterwards(tmp_path: Path) -> None:
    one = fetcher(slow)
    dataset, collate = one.dataset, one.collate_fn
    assert agent_fetch._fetch(plain)(one, [0, 1]) == [b"sample 0", b"sample 1"]
    assert (one.dataset, one.collate_fn, state.in_fetch) == (dataset, collate, False)
    (fetch,), (batch,) = log(tmp_path).of(wire.FETCH), log(tmp_path).of(wire.BATCH)
    assert (batch.samples, fetch.cpu_ns <= fetch.duration) == (2, True)


def test_a_fetch_that_fails_leaves_the_fetcher_as_it_was_too() -> None:
    def broken(index: int) -> Any:
        raise KeyError(index)

    one = fetcher(broken)
    dataset, collate = one.dataset, one.collate_fn
    with pytest.raises(KeyError):
        agent_fetch._fetch(plain)(one, [0])
    assert (one.dataset, one.collate_fn, state.in_fetch) == (dataset, collate, False)


def test_slow_fetches_are_all_looked_at(tmp_path: Path) -> None:
    fetch, one = agent_fetch._fetch(plain), fetcher(slow)
    for _ in range(4):
        fetch(one, [1])
    assert len(log(tmp_path).of(wire.FETCH)) == 4


def test_fast_fetches_are_looked_at_in_turns_and_all_counted(tmp_path: Path) -> None:
    fetch, one = agent_fetch._fetch(plain), fetcher(lambda index: index)
    for _ in range(20_000):
        fetch(one, [1])
    looked = log(tmp_path).of(wire.COUNT)
    assert 2 <= len(looked) < 2_000
    assert agent_fetch.ledger.fetches == 20_000


def touched(index: int) -> bytes:
    """Writes to a thousand pages that the kernel has not handed out before."""
    with mmap.mmap(-1, 1000 * mmap.PAGESIZE) as fresh:
        for place in range(0, len(fresh), mmap.PAGESIZE):
            fresh[place] = 1
    return slow(index)


def test_pages_that_a_fetch_maps_are_counted(tmp_path: Path) -> None:
    fetch = agent_fetch._fetch(plain)
    for get in (slow, touched):
        fetch(fetcher(get), [0, 1])
    few, many = (count.minor_faults for count in log(tmp_path).of(wire.COUNT))
    assert many - few == pytest.approx(2000, abs=256)


def test_a_worker_whose_file_fills_up_looks_more_seldom(tmp_path: Path) -> None:
    state.floor = 4
    fetch, one = agent_fetch._fetch(plain), fetcher(slow)
    for _ in range(8):
        fetch(one, [1])
    assert len(log(tmp_path).of(wire.FETCH)) == 2
    for _ in range(8):
        worker._pickled(1, 0, 100)
    assert len(log(tmp_path).of(wire.PICKLE)) == 2


def test_some_samples_are_remembered_by_their_bytes(tmp_path: Path) -> None:
    fetch, one = agent_fetch._fetch(plain), fetcher(slow, length=200)
    for _ in range(2):
        fetch(one, [0, 1, 4])
    samples = log(tmp_path).of(wire.SAMPLE)
    assert sorted(row.dataset_index for row in samples) == [0, 0, 4, 4]
    assert len({(row.dataset_index, row.checksum) for row in samples}) == 2, (
        "the same index gave the same bytes"
    )


@pytest.mark.parametrize("index", [3, [], ["name"], [(1, 2)], None])
def test_an_index_of_any_kind_passes(index: Any) -> None:
    one = fetcher(slow)
    assert agent_fetch._fetch(lambda self, given: given)(one, index) == index
