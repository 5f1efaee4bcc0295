"""Fetches find their loader through the workers that made them, and a sample of them is uniform."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.fetches import find_fetchers, read_fetches, read_payload, read_repeats
from bottleneck_doctor.assemble.rows import Row
from tests.assemble.logs import MS, PID, log, row

NUMBERING = {(PID, 1): "100:1", (PID, 2): "100:2"}


def fetch(t_ms: float, number: int, took_ms: float = 4.0, thing: int = 0) -> list[Row]:
    """One fetch: half CPU, a quarter collate."""
    took = int(took_ms * MS)
    return [
        row(wire.FETCH, t_ms, took_ms, took // 2, 0, took, 1000, 0, thing=thing),
        row(wire.BATCH, t_ms, took_ms / 4, took // 4, 32, 5000, 0, 0, thing=thing),
        row(wire.COUNT, t_ms, 0, number, 3, 7, thing=thing),
    ]


def test_workers_belong_to_the_loader_that_started_them() -> None:
    births = [row(wire.WORKER, 1, 0, 200, 0, thing=1), row(wire.WORKER, 1, 0, 201, 1, thing=2)]
    workers = [log(fetch(10, 1), pid=pid, facts=[{"fact": "worker"}]) for pid in (200, 201)]
    fetchers = find_fetchers([log(births), *workers, log([], pid=999)], NUMBERING)
    assert {
        key: [(fetcher.log.pid, fetcher.worker) for fetcher in fetcher] for key, fetcher in fetchers.items()
    } == {"100:1": [(200, 0)], "100:2": [(201, 1)]}


def test_a_loader_without_workers_fetches_in_its_own_process() -> None:
    fetchers = find_fetchers([log(fetch(10, 1, thing=1) + fetch(20, 2, thing=2))], NUMBERING)
    assert [fetchers[key][0].worker for key in ("100:1", "100:2")] == [-1, -1]
    assert [len(read_fetches(key, fetchers[key], 0).t) for key in ("100:1", "100:2")] == [1, 1]


def test_a_fetch_is_split_by_the_kernels_books() -> None:
    fetchers = find_fetchers([log(fetch(10, 1, thing=1))], NUMBERING)
    table = read_fetches("100:1", fetchers["100:1"], 0)
    assert (table.wall_s, table.cpu_s, table.other_cpu_s) == ([0.004], [0.002], [0.002])
    assert (table.collate_s, table.collate_cpu_s) == ([0.001], [0.001])
    assert (table.storage_bytes, table.read_bytes, table.reads, table.opens, table.samples) == (
        [1000],
        [5000],
        [7],
        [3],
        [32],
    )


def test_what_was_not_to_be_had_is_none() -> None:
    _, *others = fetch(10, 1, thing=1)
    rows = [row(wire.FETCH, 10, 4, 3 * MS, wire.NOTHING, 5 * MS, wire.NOTHING, thing=1), *others]
    table = read_fetches("100:1", find_fetchers([log(rows)], NUMBERING)["100:1"], 0)
    assert (table.runq_s, table.storage_bytes) == ([None], [None])


def test_a_long_table_is_a_uniform_sample() -> None:
    rows = [one for n in range(1, 1001) for one in fetch(10 * n, n, thing=1)]
    fetchers = find_fetchers([log(rows)], NUMBERING)
    table = read_fetches("100:1", fetchers["100:1"], 0, at_most=100)
    assert (len(table.t), table.seen) == (100, 1000)
    gaps = {round(after - before, 6) for before, after in zip(table.t, table.t[1:], strict=False)}
    assert gaps == {0.1}


def test_workers_counts_are_added_up() -> None:
    births = [row(wire.WORKER, 1, 0, 200 + n, n, thing=1) for n in range(2)]
    workers = [log(fetch(10, 5), pid=200 + n, facts=[{"fact": "worker"}]) for n in range(2)]
    fetchers = find_fetchers([log(births), *workers], NUMBERING)
    assert read_fetches("100:1", fetchers["100:1"], 0).seen == 10


def test_a_payload_is_a_mean_of_what_was_looked_at() -> None:
    rows = fetch(10, 1, thing=1) + [
        row(wire.CONTENT, t, 0, n, 100 * n, 0, thing=1) for t, n in ((1, 2), (2, 4))
    ]
    fetchers = find_fetchers([log(rows)], NUMBERING)
    payload = read_payload("100:1", fetchers["100:1"])
    assert payload is not None
    assert (payload.batches, payload.tensors, payload.tensor_bytes, payload.pipe_bytes) == (
        2,
        3.0,
        300.0,
        0.0,
    )
    assert read_payload("100:2", []) is None


@pytest.mark.parametrize(("checksums", "equal"), [((5, 5), 1), ((5, 6), 0)])
def test_samples_that_come_again_are_compared(checksums: tuple[int, int], equal: int) -> None:
    seen = [row(wire.SAMPLE, n, 0, 7, checksum, 64, thing=1) for n, checksum in enumerate(checksums, 1)]
    once = row(wire.SAMPLE, 9, 0, 8, 1, 64, thing=1)
    fetchers = find_fetchers([log([*fetch(10, 1, thing=1), *seen, once])], NUMBERING)
    repeats = read_repeats("100:1", fetchers["100:1"])
    assert repeats is not None
    assert (repeats.indices, repeats.compared, repeats.equal, repeats.sample_bytes) == (2, 1, equal, 64.0)
