"""Fetches, batches and constructions find their loader and their worker."""

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.fetches import (
    Fetcher,
    find_fetchers,
    read_fetches,
    read_making,
    read_payload,
    read_repeats,
)
from bottleneck_doctor.assemble.loaders import read_iterations, read_loaders
from bottleneck_doctor.assemble.rows import ProcessLog, Row
from bottleneck_doctor.assemble.steps import read_loops
from bottleneck_doctor.model.loops import Making
from tests.assemble.logs import MS, PID, Script, asks, loader_fact, log, opens, row, trains

NUMBERING = {(PID, 1): "100:1", (PID, 2): "100:2"}


def fetch(t_ms: float, number: int, took_ms: float = 4.0, thing: int = 0) -> list[Row]:
    """One fetch: half CPU, a quarter collate."""
    took = int(took_ms * MS)
    return [
        row(wire.FETCH, t_ms, took_ms, took // 2, 0, took, 1000, 0, thing=thing),
        row(wire.BATCH, t_ms, took_ms / 4, took // 4, 32, 5000, 0, 0, thing=thing),
        row(wire.COUNT, t_ms, 0, number, 3, 7, thing=thing),
    ]


def test_workers_belong_to_the_loader_that_started_them_and_their_counts_are_added_up() -> None:
    births = [row(wire.WORKER, 1, 0, 200 + n, n, thing=1 + n // 2) for n in range(3)]
    workers = [log(fetch(10, 5), pid=200 + n, facts=[{"fact": "worker"}]) for n in range(3)]
    found = find_fetchers([log(births), *workers, log([], pid=999)], NUMBERING)
    mine = {key: [(one.log.pid, one.worker) for one in members] for key, members in found.items()}
    assert mine == {"100:1": [(200, 0), (201, 1)], "100:2": [(202, 2)]}
    assert read_fetches("100:1", found["100:1"], 0).seen == 10


def test_a_fetch_is_split_by_the_kernels_books_and_what_they_lack_is_none() -> None:
    rows = [*fetch(10, 1, thing=1), *fetch(20, 2, thing=1)]
    rows[3] = row(wire.FETCH, 20, 4, 3 * MS, wire.NOTHING, 5 * MS, wire.NOTHING, thing=1)
    table = read_fetches("100:1", find_fetchers([log(rows)], NUMBERING)["100:1"], 0)
    assert (table.wall_s, table.cpu_s, table.other_cpu_s) == ([0.004] * 2, [0.002, 0.003], [0.002] * 2)
    assert (table.collate_s, table.collate_cpu_s) == ([0.001] * 2, [0.001] * 2)
    assert (table.runq_s, table.storage_bytes) == ([0.0, None], [1000, None])
    assert (table.read_bytes, table.samples) == ([5000] * 2, [32] * 2)
    assert (table.reads, table.opens) == ([7] * 2, [3] * 2)


def test_a_long_table_is_a_uniform_sample() -> None:
    rows = [one for n in range(1, 1001) for one in fetch(10 * n, n, thing=1)]
    table = read_fetches("100:1", find_fetchers([log(rows)], NUMBERING)["100:1"], 0, at_most=100)
    assert (len(table.t), table.seen) == (100, 1000)
    gaps = {round(after - before, 6) for before, after in zip(table.t, table.t[1:], strict=False)}
    assert gaps == {0.1}


def test_a_payload_is_a_mean_of_what_was_looked_at() -> None:
    rows = fetch(10, 1, thing=1) + [
        row(wire.CONTENT, t, 0, n, 100 * n, 0, thing=1) for t, n in ((1, 2), (2, 4))
    ]
    payload = read_payload("100:1", find_fetchers([log(rows)], NUMBERING)["100:1"])
    assert payload is not None
    assert (payload.batches, payload.tensors) == (2, 3.0)
    assert (payload.tensor_bytes, payload.pipe_bytes) == (300.0, 0.0)
    assert read_payload("100:2", []) is None


@pytest.mark.parametrize(("checksums", "equal"), [((5, 5), 1), ((5, 6), 0)])
def test_samples_that_come_again_are_compared(checksums: tuple[int, int], equal: int) -> None:
    seen = [row(wire.SAMPLE, n, 0, 7, checksum, 64, thing=1) for n, checksum in enumerate(checksums, 1)]
    once = row(wire.SAMPLE, 9, 0, 8, 1, 64, thing=1)
    fetchers = find_fetchers([log([*fetch(10, 1, thing=1), *seen, once])], NUMBERING)
    repeats = read_repeats("100:1", fetchers["100:1"])
    assert repeats is not None
    assert (repeats.compared, repeats.equal, repeats.sample_bytes) == (1, equal, 64.0)


KEY = "100:1"


def read(
    *workers: list[Row], main: list[Row] | None = None, facts: list[dict[str, object]] | None = None
) -> Making:
    """The loader's account from its workers' rows and those of the process that built it."""
    fetchers = [Fetcher(log(rows, pid=200 + n, facts=facts), n, None) for n, rows in enumerate(workers)]
    logs: list[ProcessLog] = [log(main or []), *(fetcher.log for fetcher in fetchers)]
    return read_making(KEY, fetchers, logs, NUMBERING)


def firstlings(*checksums: int) -> list[Row]:
    return [row(wire.FIRST_BATCH, place, 0, one, place) for place, one in enumerate(checksums, 1)]


def test_transforms_have_their_names_and_are_means_over_the_fetches_that_timed_them() -> None:
    rows = [row(wire.FETCH, t, 5) for t in (10, 20, 30, 40)]
    rows += [row(wire.TRANSFORM, t, 0, 2 * MS, 1) for t in (10, 40)]
    rows += [row(wire.TRANSFORM, 10, 0, 4 * MS, 2)]
    names = [{"fact": "transform", "number": n, "name": name} for n, name in ((1, "Crop"), (2, "Blur"))]
    assert read(rows, facts=names).transforms == {"Crop": pytest.approx(0.002), "Blur": pytest.approx(0.002)}


def test_draws_belong_to_the_loader_and_an_epochs_start_is_what_it_took_beyond_them() -> None:
    def draws(t: float, took: float, count: int, begins: int, thing: int = 1) -> Row:
        return row(wire.DRAWS, t, took, MS, count, begins, thing=thing)

    rows = [draws(1, 50, 4, 1), draws(2, 2, 1, 0), draws(3, 4, 1, 0), draws(4, 90, 1, 0, thing=2)]
    making = read([], main=rows)
    assert (making.draw_s, making.first_draws_s) == (pytest.approx(0.003), [pytest.approx(0.038)])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([], [], (0, 0)),
        ([1, 2, 3], [1, 2, 3], (3, 3)),
        ([1, 2, 3], [4, 5, 6], (3, 0)),
        ([1, 2, 3], [1], (0, 0)),
        ([1, 1, 1], [1, 1, 1], (0, 0)),  # constant data proves nothing
    ],
)
def test_first_batches_are_compared_by_place(one: list[int], other: list[int], expected: object) -> None:
    assert read(firstlings(*one), firstlings(*other)).firstlings == expected


def test_a_loader_built_each_epoch_is_one_in_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr("bottleneck_doctor.assemble.loaders.read_call", lambda *site: read.append(site))
    facts = [loader_fact(1, line=7), loader_fact(2, line=7, dataset="Data1"), {"fact": "loader", "thing": 3}]
    loaders, numbering = read_loaders([log([], facts=facts), log([], pid=200, facts=facts[:1])], mask=list)
    assert [(one.pid, one.dataset) for one in loaders] == [(100, "Data1"), (100, ""), (200, "Data1")]
    assert (numbering[100, 1] == numbering[100, 2], len(read)) == (True, 1)
    assert len({numbering[100, 1], numbering[100, 3], numbering[200, 1]}) == 3


def test_of_thousands_of_loaders_each_row_is_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    script, numbering = Script(), {(PID, n): f"100:{n}" for n in range(1, 2001)}
    for _, n in numbering:
        opens(script, n, 10 * n, loader=n)
        asks(script, n, 10 * n + 1, loader=n)
        trains(script, 10 * n + 5)
        script.rows += fetch(10 * n + 1, n, thing=n)
    given, of, calls = log(script.rows), ProcessLog.of, []
    monkeypatch.setattr(ProcessLog, "of", lambda *kinds, **how: calls.append(kinds) or of(*kinds, **how))
    tables = [read_fetches(key, some, 0) for key, some in find_fetchers([given], numbering).items()]
    loops = read_loops(given, read_iterations(given, numbering), 0)
    assert ([len(one.t) for one in tables], len(loops), len(calls) < 2000) == ([1] * 2000, 64, True)
