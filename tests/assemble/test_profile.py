"""The whole profile is bounded for a million steps and 64 processes; rows are read as far as they go."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.assemble import rows
from bottleneck_doctor.assemble.computing import COMPILATIONS_AT_MOST, read_computing
from bottleneck_doctor.assemble.facts import ProcessFact, TorchFact
from bottleneck_doctor.assemble.fetches import Fetcher, read_hot_files
from bottleneck_doctor.assemble.profile import POINTS_AT_MOST, Remains, assemble, read_blocked, read_series
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.instruments import InstrumentWindow, Sample
from bottleneck_doctor.model.profile import Padding, Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.assemble.logs import PID, log, row

MOST_BYTES = 2 << 20
MILLION = 1_000_000
LOOKS = 12_000  # close looks at three loops; a full file of rows holds about that many
WORKERS = 63


def remains(folder: Path | None, samples: list[Sample] | None = None) -> Remains:
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 1.0, 0)
    return Remains(run, Machine("box", "6", "cpu", 2, 2.0), 0, samples or [], folder=folder)


def writer(folder: Path, pid: int) -> EventWriter:
    """A file such as that process would write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        return EventWriter(str(folder))


def long_run(folder: Path) -> None:
    """A million steps of two loaders side by side and an evaluation, seen in part; 63 workers."""
    chance = random.Random(7)
    main = writer(folder, 100)
    for thing in (1, 2, 3):
        main.fact(fact="loader", thing=thing, dataset=f"Data{thing}", file="train.py", line=thing)
        main.row(wire.EPOCH, 1, 1000, thing, thing=thing)
    for worker in range(WORKERS):
        main.row(wire.WORKER, 1, 0, 200 + worker, worker, thing=1 + worker % 3)
    stride, t, wait = MILLION // LOOKS, 10**9, {1: 0, 2: 0, 3: 0}
    for look in range(1, LOOKS + 1):
        passes = look * stride
        for thing in (1, 2, 3):
            t += chance.randrange(10**8)
            took = chance.randrange(10**6)
            wait[thing] += stride * took
            main.row(wire.NEXT, t, took, passes, took // 3, wait[thing], passes, passes, thing)
            main.row(
                wire.CLOCKS, t, thing, int(0.7 * t), int(1.3 * t), int(0.01 * t), 3, 12_000 * look, thing
            )
            if thing == 1:
                main.row(wire.BACKWARD, t + took, chance.randrange(10**6))
            main.row(wire.OPERATION, t + took, chance.randrange(10**7), 10, 0, thing % 2, thing=look % 40)
    for worker in range(WORKERS):
        _worker(writer(folder, 200 + worker), worker, t, chance)


def _worker(file: EventWriter, number: int, end: int, chance: random.Random) -> None:
    file.fact(fact="worker", worker=number, workers=WORKERS)
    for place in range(1, 201):
        t, took = end // 200 * place + chance.randrange(1000), chance.randrange(10**7)
        file.row(wire.FETCH, t, took, took // 2, took // 9, took, chance.randrange(10**6), 0)
        file.row(wire.BATCH, t, took // 5, took // 6, 32, chance.randrange(10**6), took // 50, took // 70)
        file.row(wire.COUNT, t, 0, 80 * place, 3, 4)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder = tmp_path_factory.mktemp("long")
    long_run(folder)
    chance = random.Random(1)
    names = [f"sensor_{number}" for number in range(24)]
    samples = [
        Sample(place * 500_000_000, "machine", {name: place * chance.random() for name in names})
        for place in range(20_000)
    ]
    return assemble(remains(folder, samples))


def test_a_million_steps_of_64_processes_take_less_than_2_mib_and_none_is_lost(profile: Profile) -> None:
    data = encode_profile(profile)
    assert len(data) < MOST_BYTES
    assert decode_profile(data) == profile
    assert len(profile.processes) == 1 + WORKERS
    assert max(loop.steps for loop in profile.loops) > 0.99 * MILLION
    for loop in profile.loops:
        assert not loop.table.t or sum(loop.table.steps) == pytest.approx(loop.steps, rel=0.01)
    assert sum(len(table.t) for table in profile.fetches) > 1000


def test_a_run_that_nobody_saw_says_so(tmp_path: Path) -> None:
    (gap,) = assemble(remains(tmp_path)).gaps
    assert gap.what == "hooks"
    assert gap.do
    assert assemble(remains(None)).gaps == []
    assert assemble(remains(tmp_path / "missing")).gaps == [gap]


def test_rows_that_found_no_room_are_a_gap(tmp_path: Path) -> None:
    file = writer(tmp_path, 100)
    file.post(wire.DROPPED, 5)
    (gap,) = assemble(remains(tmp_path)).gaps
    assert "5 rows" in gap.why


def test_the_agents_own_cost_is_per_step_of_the_busiest_process(tmp_path: Path) -> None:
    for pid, steps in ((100, 50), (200, 10)):
        file = writer(tmp_path, pid)
        file.post(wire.STEPS, steps)
        file.post(wire.COST, 1000 * steps * pid)
    assert assemble(remains(tmp_path)).cost.agent_s_per_step == pytest.approx(1e-4)


def test_no_process_is_without_operations_because_an_older_one_has_many(tmp_path: Path) -> None:
    for pid in (100, 200, 300):
        file = writer(tmp_path, pid)
        for kind in (wire.OPERATION, wire.COLLECTIVE):
            for site in range(1, 61):
                file.row(kind, 1000 * site, site, thing=site)
    counts = Counter(one.pid for one in assemble(remains(tmp_path)).operations)
    assert counts == {100: 42, 200: 42, 300: 42}


def test_steps_under_torch_profiler_are_set_aside_and_those_under_py_spy_are_not(tmp_path: Path) -> None:
    file = writer(tmp_path, 100)
    for look in range(1, 6):
        file.row(wire.NEXT, look * 10**9, 1000, look, 10, 1000 * look, look, look, 1)
        file.row(wire.CLOCKS, look * 10**9, 1, 0, 0, 0, 0, 0, 1)
    left = remains(tmp_path)
    left.windows.append(InstrumentWindow("py-spy", 1.2, 2.4))
    left.windows.append(InstrumentWindow("torch.profiler", 3.2, 3.4))
    (loop,) = assemble(left).loops
    assert loop.table.set_aside == ["", "", "instrument", ""]


PER_CHUNK = wire.CHUNK_BYTES // wire.ROW.size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    writer = EventWriter(str(tmp_path))
    for place in range(PER_CHUNK + 3):
        writer.row(wire.BACKWARD, place + 1, 1)
    writer.fact(fact="process", rank=0)
    return Path(writer.path + ".rows")


def test_all_chunks_are_read_but_for_a_row_that_was_not_finished(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.seek(wire.HEADER_BYTES + 5 * wire.ROW.size + wire.ROW.size - 2)
        handle.write(b"\0\0")
    (log,) = read_logs(file.parent)
    assert [row.t for row in log.rows] == [t for t in range(1, PER_CHUNK + 4) if t != 6]
    assert log.facts_of(ProcessFact) == [ProcessFact(rank=0)]
    assert (log.facts_of(TorchFact), log.first(TorchFact)) == ([], TorchFact())


@pytest.mark.parametrize("size", [0, 1, wire.HEADER_BYTES - 1, wire.HEADER_BYTES, wire.HEADER_BYTES + 70])
def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(file: Path, size: int) -> None:
    os.truncate(file, size)
    logs = read_logs(file.parent)
    assert len(logs) == (size >= wire.HEADER_BYTES)
    assert sum(len(log.rows) for log in logs) == max(0, size - wire.HEADER_BYTES) // wire.ROW.size


@pytest.mark.parametrize("place", [0, 8, 12])
def test_a_file_of_another_kind_version_or_row_size_is_left_out(file: Path, place: int) -> None:
    with file.open("r+b") as handle:
        handle.seek(place)
        handle.write(b"\xff")
    assert read_logs(file.parent) == []


def test_facts_that_are_no_facts_are_left_out(file: Path) -> None:
    facts = file.with_suffix(".facts")
    known = b'{"fact": "process", "rank": true, "world_size": 2, "python": 3, "spare": true}'
    facts.write_bytes(known + b"\nnonsense\n[1, 2]\n\xff\xfe\n" + b"[" * 100_000 + b'\n{"fact": "two"')
    (log,) = read_logs(file.parent)
    assert len(log.facts) == 1
    assert log.first(ProcessFact) == ProcessFact(world_size=2), "a truth value is no number"


def test_of_many_workers_instants_are_left_out_and_none_of_who_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_AT_MOST", 8 * PER_CHUNK)
    monkeypatch.setattr(rows, "OTHERS_ROWS_AT_LEAST", 4 * PER_CHUNK)
    for trains in (True, False, False, False):
        writer = EventWriter(str(tmp_path))
        if trains:
            writer.post(wire.FIRST, 1)
        for fetch in range(2 * PER_CHUNK):
            start = (fetch + 1) * 1_000_003
            writer.row(wire.FETCH, start, 1)
            writer.row(wire.BATCH, start, 1)
    training, *workers = read_logs(tmp_path)
    assert len(training.rows) == 4 * PER_CHUNK
    kept = [len(worker.rows) for worker in workers]
    assert 2 * PER_CHUNK < sum(kept) <= 4 * PER_CHUNK
    for worker in workers:
        assert [row.t for row in worker.of(wire.FETCH)] == [row.t for row in worker.of(wire.BATCH)]


HALF_S = 500_000_000
OWNERS = {200: "100:1"}


def test_sensors_of_one_tick_share_a_row_and_what_it_did_not_measure_is_none() -> None:
    samples = [Sample(HALF_S + 1, "cpu", {"a": 1.0}), Sample(HALF_S + 9, "gpu", {"b": 2.0, "name": "x"})]
    series = read_series([*samples, Sample(2 * HALF_S, "gpu", {"b": 3.0})], 0)
    assert (series.t, series.values) == ([0.5, 1.0], {"a": [1.0, None], "b": [2.0, 3.0]})


def test_a_long_run_is_thinned_and_what_is_read_rarely_or_out_of_step_outlasts_that() -> None:
    """A GPU's readings roam: in a long run they fall between all others."""
    host = [Sample(4 * n * HALF_S, "system", {"cpu": float(n)}) for n in range(POINTS_AT_MOST)]
    gpu = [Sample((4 * n + 2) * HALF_S, "gpu", {"busy": 0.5}) for n in range(POINTS_AT_MOST)]
    series = read_series([*host, *gpu, Sample(2 * HALF_S, "gpu_static", {"clock_max": 1980})], 0)
    assert POINTS_AT_MOST / 2 < len(series.t) <= POINTS_AT_MOST
    assert None not in series.values["cpu"] + series.values["busy"]
    assert series.values["clock_max"][0] == 1980


def test_blocked_samples_go_to_the_loader_of_the_process_and_loops_to_their_own() -> None:
    samples = [
        Sample(HALF_S, "blocked", {"pid": 200, "width_s": 0.5, "storage": 3, "running": 1, "lock": 0}),
        Sample(HALF_S, "blocked", {"pid": 999, "storage": 5}),
        Sample(HALF_S, "loop", {"pid": 100, "made": 2}),
    ]
    maker, loop = read_blocked(samples, OWNERS, 0)
    assert (maker.loader, maker.t, maker.counts) == ("100:1", [0.5], [{"storage": 3, "running": 1}])
    assert (loop.loader, loop.pid, loop.counts) == ("", 100, [{"made": 2}])


def test_files_from_inside_and_outside_are_one_list() -> None:
    paths = [{"path": "/data/a.JPG", "direct": True}, {"path": "/data/b.jpg"}]
    worker = log([], pid=200, facts=[{"fact": "file", **one} for one in paths])
    samples = [Sample(1, "file", {"pid": 200, "path": "/data/b.jpg", "fstype": "nfs4", "rotational": -1})]
    (files,) = read_hot_files([worker], samples, OWNERS)
    assert (files.files, files.suffixes, files.mounts) == (2, {".jpg": 2}, {"nfs4": 1})
    assert (files.rotational, files.direct) == (None, True)


SWITCHES = {"fact": "switches", "anomaly": False, "autocast": False, "invented_later": 3}


def test_switches_noticed_later_join_those_read_at_first() -> None:
    facts = [SWITCHES, {"fact": "noticed", "switch": "anomaly"}, {"fact": "graph", "casts_weights": True}]
    (found,) = read_computing([log([], facts=facts)], {}, 0).switches
    assert (found.pid, found.anomaly, found.noticed, found.autocast) == (PID, False, ["anomaly"], True)
    (found,) = read_computing([log([], facts=[SWITCHES])], {}, 0).switches
    assert found.autocast is None, "without a graph it is not known to be off"


def test_padding_is_summed_over_a_loaders_batches() -> None:
    rows = [row(wire.PADDING, t, 0, 100, 10 * t, thing=1) for t in (1, 2)]
    fetcher = Fetcher(log([*rows, row(wire.PADDING, 3, 0, 100, 90, thing=2)]), -1, 1)
    assert read_computing([], {"1:1": [fetcher]}, 0).paddings == [Padding("1:1", 2, 200, 30)]


def test_compilation_is_a_short_table_of_running_totals() -> None:
    rows = [row(wire.COMPILED, t, 0, t, 0, 1_000_000 * t) for t in range(1, 3 * COMPILATIONS_AT_MOST)]
    (found,) = read_computing([log(rows)], {}, 0).compilations
    assert len(found.t) == len(found.frames) <= COMPILATIONS_AT_MOST
    assert (found.t[0], found.frames[0], found.seconds[0]) == (0.001, 1, 0.001)
