"""Worker processes of every start method become known, and fail as they fail without us."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.assemble.rows import ProcessLog, read_logs
from bottleneck_doctor.model.fetches import FetchTable
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import AGENT, PRELUDE, Told, loader_of, plain, profile_of, said, watched

SCRIPT = (
    PRELUDE
    + """
class Forked(Rows):
    def __getitem__(self, index):
        with open(__file__, "rb") as file:
            file.read(64)
        time.sleep(0.0015)
        return super().__getitem__(index)

class Spawned(Rows):
    def __getitem__(self, index):
        time.sleep(0.0015)  # a batch takes long enough for each to be looked at closely
        return super().__getitem__(index)

class Served(Spawned):
    pass

class Fragile(Rows):
    def __getitem__(self, index):
        if index == 9:
            raise LookupError("no row 9")
        return super().__getitem__(index)

def main():
    each = (Forked(), "fork", 2), (Spawned(), "spawn", 1), (Served(), "forkserver", 1)
    for data, method, workers in each:
        if "PLAIN" in os.environ:
            break
        loader = DataLoader(data, batch_size=2, num_workers=workers, multiprocessing_context=method)
        say(**{method: [batch.tolist() for batch in loader]})
    try:
        list(DataLoader(Fragile(), batch_size=2, num_workers=1, multiprocessing_context="fork"))
    except Exception as error:
        say(kind=type(error).__name__, message=str(error))

if __name__ == "__main__":
    main()
"""
)
METHODS = {"Forked": ("fork", 2), "Spawned": ("spawn", 1), "Served": ("forkserver", 1)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("watched"), SCRIPT)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return said(plain(tmp_path_factory.mktemp("plain"), SCRIPT, PLAIN="1"))


@pytest.fixture(scope="module")
def profile(told: Told) -> Profile:
    return profile_of(told)


@pytest.fixture(scope="module")
def logs(told: Told) -> list[ProcessLog]:
    return read_logs(told.folder)


@pytest.fixture
def fetches(profile: Profile) -> dict[str, FetchTable]:
    names = {loader.key: loader.dataset for loader in profile.loaders}
    return {names[table.loader]: table for table in profile.fetches}


@pytest.mark.parametrize("dataset", METHODS)
def test_workers_are_known_by_number_and_loader(dataset: str, profile: Profile) -> None:
    method, count = METHODS[dataset]
    loader = loader_of(profile, dataset)
    workers = [process for process in profile.processes if process.loader == loader.key]
    assert [process.role for process in workers] == ["worker"] * count
    assert sorted(process.worker for process in workers if process.worker is not None) == list(range(count))
    assert (loader.start_method, loader.num_workers) == (method, count)


@pytest.mark.parametrize("dataset", METHODS)
def test_all_their_fetches_are_counted(dataset: str, fetches: dict[str, FetchTable]) -> None:
    table = fetches[dataset]
    assert table.seen == 8
    assert set(table.worker) == set(range(METHODS[dataset][1]))
    assert set(table.samples) == {2}
    assert all(
        cpu <= wall and collate <= wall
        for cpu, collate, wall in zip(table.cpu_s, table.collate_s, table.wall_s, strict=True)
    )


def test_files_opened_in_a_fetch_are_counted_and_named(
    fetches: dict[str, FetchTable], profile: Profile
) -> None:
    (files,) = (one for one in profile.hot_files if one.loader == fetches["Forked"].loader)
    assert set(fetches["Forked"].opens) == {2}, files.example
    assert (files.files, files.suffixes, files.direct) == (1, {".py": 1}, False)


def test_files_opened_while_a_batch_is_sent_are_not_the_next_ones(tmp_path: Path) -> None:
    """The first tensor that leaves a worker makes multiprocessing look for a temporary folder."""
    only_forked = SCRIPT.replace(', (Spawned(), "spawn", 1), (Served(), "forkserver", 1)', ",")
    assert only_forked != SCRIPT
    slow_sending = only_forked.replace(
        "def main():",
        """
import tempfile
def late():
    time.sleep(0.0015)  # the next batch is being made by now, for twice as long
    tempfile.tempdir = None
    return gettempdir()
gettempdir, tempfile.gettempdir = tempfile.gettempdir, late

def main():""",
    )
    profile = profile_of(watched(tmp_path, slow_sending))
    (table,) = (one for one in profile.fetches if one.loader == loader_of(profile, "Forked").key)
    assert set(table.opens) == {2}


def test_what_a_batch_is_made_of_and_costs_to_send_is_known(profile: Profile) -> None:
    key = loader_of(profile, "Forked").key
    (payload,) = (one for one in profile.payloads if one.loader == key)
    assert (payload.tensors, payload.tensor_bytes, payload.other_bytes) == (1, 2 * 4 * 4, 0)
    assert payload.pipe_bytes > 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_batches_come_whole_and_in_order(method: str, told: Told) -> None:
    assert said(told)[method] == [
        [[float(row)] * 4 for row in (place, place + 1)] for place in range(0, 16, 2)
    ]


def test_a_failing_worker_raises_the_same_with_our_frames_added_at_most(
    told: Told, alone: dict[str, Any]
) -> None:
    seen = said(told)
    assert seen["kind"] == alone["kind"] == "LookupError"
    ours = rf'  File "{re.escape(str(AGENT))}/.*\n.*\n(?:.*\^.*\n)?'
    messages = [re.sub(ours, "", one["message"]) for one in (seen, alone)]
    assert len({re.sub(r"(plain|watched)\d+", "", one) for one in messages}) == 1


def test_the_fork_server_itself_is_no_worker(logs: list[ProcessLog], profile: Profile) -> None:
    others = [process for process in profile.processes if process.role == "other"]
    assert len(logs) == 1 + 4 + 1 + len(others)
    assert all(process.loader is None for process in others)
