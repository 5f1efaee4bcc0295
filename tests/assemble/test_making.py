"""What hooks inside fetches wrote becomes means per batch, and two workers' first batches are compared."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.fetches import Fetcher, read_making
from bottleneck_doctor.assemble.rows import ProcessLog, Row
from bottleneck_doctor.model.fetches import Making
from tests.assemble.logs import MS, PID, log, row

KEY, NUMBERING = "100:1", {(PID, 1): "100:1"}


def read(
    *workers: list[Row], main: list[Row] | None = None, facts: list[dict[str, object]] | None = None
) -> Making:
    """The loader's account from its workers' rows and those of the process that built it."""
    fetchers = [Fetcher(log(rows, pid=200 + n, facts=facts), n, None) for n, rows in enumerate(workers)]
    logs: list[ProcessLog] = [log(main or []), *(fetcher.log for fetcher in fetchers)]
    return read_making(KEY, fetchers, logs, NUMBERING)


def firstlings(*checksums: int) -> list[Row]:
    return [row(wire.FIRST_BATCH, place, 0, one, place) for place, one in enumerate(checksums, 1)]


def test_unpacking_is_a_mean_over_all_fetches() -> None:
    rows = [row(wire.FETCH, 10, 5), row(wire.FETCH, 20, 5), row(wire.UNPACK, 10, 0, 3 * MS, 4000)]
    making = read(rows)
    assert (making.batches, making.unpack_cpu_s, making.unpacked_bytes) == (2, pytest.approx(0.0015), 2000)


def test_transforms_have_their_names_and_are_means_over_the_fetches_that_timed_them() -> None:
    rows = [row(wire.FETCH, t, 5) for t in (10, 20, 30, 40)]
    rows += [row(wire.TRANSFORM, t, 0, 2 * MS, 1) for t in (10, 40)]
    rows += [row(wire.TRANSFORM, 10, 0, 4 * MS, 2)]
    names = [{"fact": "transform", "number": n, "name": name} for n, name in ((1, "Crop"), (2, "Blur"))]
    assert read(rows, facts=names).transforms == {"Crop": pytest.approx(0.002), "Blur": pytest.approx(0.002)}


def test_draws_belong_to_the_loader_and_an_epochs_start_is_what_it_took_beyond_them() -> None:
    def draws(t: float, took: float, count: int, begins: int, thing: int = 1) -> Row:
        return row(wire.DRAWS, t, took, MS, count, begins, thing=thing)

    making = read(
        [], main=[draws(1, 50, 4, 1), draws(2, 2, 1, 0), draws(3, 4, 1, 0), draws(4, 90, 1, 0, thing=2)]
    )
    assert making.draw_s == pytest.approx(0.003)
    assert making.first_draws_s == [pytest.approx(0.038)]


def test_nothing_seen_is_nothing_said() -> None:
    assert read([]) == Making(KEY)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), (3, 3)),
        ((1, 2, 3), (4, 5, 6), (3, 0)),
        ((1, 2, 3), (1,), (0, 0)),
        ((1, 1, 1), (1, 1, 1), (0, 0)),  # constant data proves nothing
    ],
)
def test_first_batches_are_compared_by_place(
    one: tuple[int, ...], other: tuple[int, ...], expected: tuple[int, int]
) -> None:
    assert read(firstlings(*one), firstlings(*other)).firstlings == expected
