"""Sensors' samples become bounded series, and find the loader whose processes they saw."""

from __future__ import annotations

from bottleneck_doctor.assemble.fetches import read_hot_files
from bottleneck_doctor.assemble.samples import (
    BUCKETS_AT_MOST,
    CELLS_AT_MOST,
    POINTS_AT_MOST,
    read_blocked,
    read_series,
)
from bottleneck_doctor.model.instruments import Sample
from tests.assemble.logs import log

HALF_S = 500_000_000
OWNERS = {200: "100:1"}


def test_sensors_of_one_tick_share_a_row() -> None:
    samples = [Sample(HALF_S + 1, "cpu", {"a": 1.0}), Sample(HALF_S + 9, "gpu", {"b": 2.0, "name": "x"})]
    series = read_series(samples, 0)
    assert (series.t, series.values) == ([0.5], {"a": [1.0], "b": [2.0]})


def test_what_a_tick_did_not_measure_is_none() -> None:
    series = read_series([Sample(HALF_S, "cpu", {"a": 1.0}), Sample(2 * HALF_S, "gpu", {"b": 2.0})], 0)
    assert series.values == {"a": [1.0, None], "b": [None, 2.0]}


def test_a_long_run_is_sampled_more_thinly() -> None:
    series = read_series([Sample(n * HALF_S, "cpu", {"a": float(n)}) for n in range(5000)], 0)
    assert POINTS_AT_MOST / 2 < len(series.t) <= POINTS_AT_MOST


def test_what_is_read_rarely_or_out_of_step_outlasts_the_thinning() -> None:
    """A GPU's readings roam: in a long run they fall between all others."""
    host = [Sample(4 * n * HALF_S, "system", {"cpu": float(n)}) for n in range(POINTS_AT_MOST)]
    gpu = [Sample((4 * n + 2) * HALF_S, "gpu", {"busy": 0.5}) for n in range(POINTS_AT_MOST)]
    once = Sample(2 * HALF_S, "gpu_static", {"clock_max": 1980})
    values = read_series([*host, *gpu, once], 0).values
    assert None not in values["cpu"]
    assert None not in values["busy"]
    assert values["clock_max"][0] == 1980


def test_many_gpus_keep_a_profile_small() -> None:
    many = {f"gpu{place}_{name}": 1.0 for place in range(64) for name in range(36)}
    series = read_series([Sample(n * HALF_S, "gpu", many) for n in range(2000)], 0)
    assert len(series.values) == len(many)
    assert len(series.t) * len(many) <= CELLS_AT_MOST


def test_blocked_samples_go_to_the_loader_of_the_process() -> None:
    samples = [
        Sample(HALF_S, "blocked", {"pid": 200, "width_s": 0.5, "storage": 3, "running": 1}),
        Sample(HALF_S, "blocked", {"pid": 999, "storage": 5}),
        Sample(HALF_S, "channel", {"name": "pipe_read", "count": 4}),
    ]
    (blocked,) = read_blocked(samples, OWNERS, 0)
    assert (blocked.loader, blocked.t) == ("100:1", [0.5])
    assert blocked.counts == [{"storage": 3, "running": 1}]
    assert blocked.channels == {"pipe_read": 4}


def test_many_buckets_are_merged_and_none_is_lost() -> None:
    samples = [Sample(n * HALF_S, "blocked", {"pid": 200, "lock": 1}) for n in range(1, 5001)]
    (blocked,) = read_blocked(samples, OWNERS, 0)
    assert len(blocked.t) == len(blocked.counts) <= BUCKETS_AT_MOST
    assert sum(counts["lock"] for counts in blocked.counts) == 5000


def test_files_from_inside_and_outside_are_one_list() -> None:
    worker = log(
        [], pid=200, facts=[{"fact": "file", "path": "/data/a.JPG"}, {"fact": "file", "path": "/data/b.jpg"}]
    )
    samples = [Sample(1, "file", {"pid": 200, "path": "/data/b.jpg", "fstype": "nfs4", "rotational": -1})]
    (files,) = read_hot_files([worker], samples, OWNERS)
    assert (files.files, files.suffixes, files.mounts) == (2, {".jpg": 2}, {"nfs4": 1})
    assert files.rotational is None
    assert not files.direct


def test_one_file_opened_past_the_page_cache_is_enough_to_know() -> None:
    facts = [{"fact": "file", "path": f"/data/{n:03}.jpg", "direct": n == 7} for n in range(500)]
    (files,) = read_hot_files([log([], pid=200, facts=facts)], [], OWNERS)
    assert (files.files, files.direct) == (500, True)
