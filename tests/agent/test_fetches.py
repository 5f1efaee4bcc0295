"""Fetches and what happens inside them: containers, decoders, samplers, transforms."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time_ns, thread_time_ns
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from bottleneck_doctor.agent import fetch, input_ops, ranks, saving, wire
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import ProcessLog, read_logs
from tests.agent.watching import PRELUDE, Told, both_ways, plain, profile_of, said, watched

pytest.importorskip("torch")  # its modes are asked for at each sampled fetch


@pytest.fixture(autouse=True)
def _worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is a worker for the length of a test."""
    state.begin(str(tmp_path))
    state.worker = True
    monkeypatch.setattr(fetch, "_Process", type("_Process", (), {**vars(fetch._Process), "transforms": {}}))
    monkeypatch.setattr(fetch, "transform_times", fetch.TransformTimes())
    yield
    state.begin(str(tmp_path))


def fetcher(get: Callable[[int], Any], length: int = 8, **attributes: Any) -> Any:
    """A map-style fetcher as torch builds it."""

    class Data:
        def __len__(self) -> int:
            return length

        def __getitem__(self, index: int) -> Any:
            return get(index)

    data = Data()
    vars(data).update(attributes)
    return SimpleNamespace(dataset=data, collate_fn=list, auto_collation=True)


@fetch._fetch
def fetched(self: Any, indices: list[int]) -> Any:
    return self.collate_fn([self.dataset[index] for index in indices])


def slow(index: int) -> bytes:
    time.sleep(0.0022)
    return b"sample %d" % index


def log(folder: Path) -> ProcessLog:
    return read_logs(folder)[-1]


def test_the_fetcher_is_as_it_was_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = fetcher(slow)
    dataset, collate = one.dataset, one.collate_fn
    assert fetched(one, [0, 1]) == [b"sample 0", b"sample 1"]
    assert (one.dataset, one.collate_fn, state.in_fetch) == (dataset, collate, 0)
    one.dataset = empty = []
    for clock, error in (process_time_ns, IndexError), (Mock(side_effect=SystemExit), SystemExit):
        monkeypatch.setattr(fetch, "process_time_ns", clock)
        with pytest.raises(error):
            fetched(one, [0])
        assert (one.dataset is empty, one.collate_fn, state.in_fetch) == (True, collate, 0)
    (row,), (batch,) = log(tmp_path).of(wire.FETCH), log(tmp_path).of(wire.BATCH)
    assert (batch.samples, row.cpu_ns <= row.duration) == (2, True)


@pytest.mark.parametrize(
    ("module", "build"),
    [
        (input_ops, input_ops._timed(input_ops.decoded)),
        (fetch, fetch._timed_transform),
        (saving, saving._timed(saving.LOGGING)),
        (ranks, ranks._timed("barrier")),
    ],
)
def test_what_a_signal_handler_raises_ahead_of_a_call_leaves_the_hook_at_work(
    module: Any, build: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call was taken to be running from then on, and all later ones to be within it."""
    clock = thread_time_ns
    calls = 0

    def interrupted() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        return clock()

    fetch.transform_times.open, state.in_fetch = True, 1
    timed = build(lambda *_: "done")
    monkeypatch.setattr(module, "thread_time_ns", interrupted)
    with pytest.raises(KeyboardInterrupt):
        timed("one")
    assert timed("two") == "done"
    assert calls > 1


def test_fast_fetches_are_sampled_in_turns_and_all_counted(tmp_path: Path) -> None:
    one = fetcher(lambda index: index)
    for _ in range(20_000):
        fetched(one, [1])
    assert 2 <= len(log(tmp_path).of(wire.COUNT)) < 2_000
    assert fetch._Process.fetches == 20_000


def test_some_samples_are_remembered_by_their_bytes(tmp_path: Path) -> None:
    one = fetcher(slow, length=200)
    for _ in range(2):
        fetched(one, [0, 1, 4])
    samples = log(tmp_path).of(wire.SAMPLE)
    assert sorted(row.dataset_index for row in samples) == [0, 0, 4, 4]
    assert len({(row.dataset_index, row.checksum) for row in samples}) == 2, "equal bytes, equal checksums"


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Inner:
    def __call__(self, value: Any) -> Any:
        return value


class Blur:
    def __init__(self) -> None:
        self.inner = Inner()

    def __call__(self, value: Any) -> Any:
        return sum(range(20_000)) and self.inner(value)


class Breaks:
    def __call__(self, value: Any) -> Any:
        raise KeyError(value)


def test_each_class_of_transform_is_timed_in_some_fetches(tmp_path: Path) -> None:
    steps = Compose([Blur(), Inner(), str.upper])
    one = fetcher(lambda index: steps("a") + slow(index).decode()[:0], transform=steps)
    one.dataset.dataset = one.dataset  # wrapped in itself: the search must end
    for _ in range(2 * fetch.TRANSFORMS_EVERY):
        assert fetched(one, [1]) == ["A"]
    names = {one["number"]: one["name"] for one in log(tmp_path).facts if one.get("fact") == "transform"}
    seen = [(names[row.number], row.cpu_ns > 0) for row in log(tmp_path).of(wire.TRANSFORM)]
    assert sorted(seen) == [("Blur", True), ("Blur", True), ("Inner", True), ("Inner", True)]
    assert not hasattr(Blur.__call__, "_bdoc_original")  # else cloudpickle would write ours out


def test_a_transform_that_fails_fails_as_it_did_and_the_next_is_timed(tmp_path: Path) -> None:
    steps = [Breaks(), Blur()]  # a plain list is found, too
    one = fetcher(lambda index: steps[index]("a"), augmentations=steps)
    with pytest.raises(KeyError, match="a"):
        fetched(one, [0])
    fetched(one, [1])
    assert len(log(tmp_path).of(wire.TRANSFORM)) == 1
    assert not fetch.transform_times.inside


def test_only_decoding_inside_fetches_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoder = ModuleType("quickjpeg")
    decoder.decode = lambda data: sum(range(20_000)) and data  # type: ignore[attr-defined]
    monkeypatch.setitem(input_ops.DECODERS, "quickjpeg", ("decode",))
    input_ops.watchers()[0]["quickjpeg"](decoder)
    for get in (slow, lambda index: decoder.decode(b"x")):
        assert decoder.decode(b"x") == b"x"
        fetched(fetcher(get), [0])
    none, some = (batch.decode_ns for batch in log(tmp_path).of(wire.BATCH))
    assert none == 0 < some


ZIPS = """
import zipfile
with zipfile.ZipFile("rows.zip", "w") as archive:
    for index in range(300):
        archive.writestr(f"{index}.txt", str(index))

class Zipped(Rows):
    def __init__(self, keep):
        super().__init__(16)
        self.keep, self.archive = keep, None

    def __getitem__(self, index):
        if self.keep and self.archive is not None:
            archive = self.archive
        else:
            archive = self.archive = zipfile.ZipFile("rows.zip")
        return torch.full((4,), float(archive.read(f"{index}.txt")))

class KeptOpen(Zipped):
    pass

for data in (Zipped(False), KeptOpen(True)):
    for epoch in range(2):
        for batch in DataLoader(data, batch_size=4, num_workers=WORKERS):
            train_on(batch)
try:
    zipfile.ZipFile("absent.zip")
except FileNotFoundError as error:
    say(named=error.filename)
"""

HDF5 = """
import h5py
with h5py.File("rows.h5", "w") as file:
    file["x"] = [[float(i)] * 4 for i in range(16)]

class Reopened(Rows):
    def __getitem__(self, index):
        with h5py.File("rows.h5", "r") as file:
            return torch.from_numpy(file["x"][index]).float()

for batch in DataLoader(Reopened(), batch_size=4):
    train_on(batch)
"""


@pytest.fixture(scope="module", params=[0, 1], ids=["in the loop", "in a worker"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("zips"), PRELUDE + ZIPS.replace("WORKERS", str(request.param)))


def test_openings_inside_fetches_are_counted_and_timed(told: Told) -> None:
    assert said(told) == {"named": "absent.zip"}
    profile = profile_of(told)
    names = {loader.key: loader.dataset for loader in profile.loaders}
    tables = {names[table.loader]: table for table in profile.fetches}
    assert set(tables["Zipped"].containers) == {4}
    for wall, opening in zip(tables["Zipped"].wall_s, tables["Zipped"].container_s, strict=True):
        assert opening is not None
        assert 0 < opening < wall
    assert sum(count or 0 for count in tables["KeptOpen"].containers) in (1, 2)  # once a worker, an epoch


@pytest.mark.parametrize("told", [0], indirect=True)
def test_a_script_that_opens_containers_prints_the_same_without_us(told: Told, tmp_path: Path) -> None:
    assert plain(tmp_path, PRELUDE + ZIPS.replace("WORKERS", "0")).stdout == told.stdout


def test_a_library_that_opens_in_c_is_heard_too(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    profile = profile_of(watched(tmp_path, PRELUDE + HDF5))
    (table,) = profile.fetches
    assert set(table.containers) == set(table.opens) == {4}
    assert profile.hot_files[0].suffixes == {".h5": 1}


SCRIPT = """
class Slow(torch.utils.data.Sampler):
    def __len__(self): return 48
    def __iter__(self):
        time.sleep(0.05)
        for index in torch.randperm(48).tolist():
            time.sleep(0.002)
            yield index

workers = {workers}
loader = DataLoader(Rows(48), 4, sampler=Slow(), num_workers=workers, persistent_workers=workers > 0)
seen = []
for epoch in range(3):
    for batch in loader:
        train_on(batch)
        seen += batch[:, 0].tolist()
assert not any("_next_index" in vars(one) for one in [loader._iterator] if one is not None)
say(seen=seen)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1])
def test_draws_are_timed_by_the_batch_and_at_each_start(workers: int, tmp_path: Path) -> None:
    alone, told = both_ways(tmp_path, PRELUDE + SCRIPT.format(workers=workers))
    assert said(told) == said(alone), "the same samples in the same order"
    (making,) = profile_of(told).makings
    assert making.draw_s is not None
    assert making.draw_s > 0.006, "four indices of two milliseconds each, and a draw that finds the end"
    assert making.draw_cpu_s is not None
    assert making.draw_cpu_s < 0.5 * making.draw_s, "they were slept, not computed"
    assert sum(making.first_draws_s) > 3 * 0.045
