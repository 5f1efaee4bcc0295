"""Fetches and what happens inside them: containers, decoders, samplers, transforms."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mmap
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import fetch, input_ops, transforms, wire, worker
from bottleneck_doctor.agent import fetch as agent_fetch
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import ProcessLog, Row, read_logs
from tests.agent.watching import PRELUDE, Told, profile_of, said, watched
from tests.agent.watching import plain as plain_patch_containers
from tests.agent.watching import plain as plain_patch_sampler


@pytest.fixture
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


@pytest.mark.usefixtures("_worker")
def test_the_fetcher_is_as_it_was_afterwards(tmp_path: Path) -> None:
    one = fetcher(slow)
    dataset, collate = one.dataset, one.collate_fn
    assert agent_fetch._fetch(plain)(one, [0, 1]) == [b"sample 0", b"sample 1"]
    assert (one.dataset, one.collate_fn, state.in_fetch) == (dataset, collate, False)
    (fetch,), (batch,) = log(tmp_path).of(wire.FETCH), log(tmp_path).of(wire.BATCH)
    assert (batch.samples, fetch.cpu_ns <= fetch.duration) == (2, True)


@pytest.mark.usefixtures("_worker")
def test_a_fetch_that_fails_leaves_the_fetcher_as_it_was_too() -> None:
    def broken(index: int) -> Any:
        raise KeyError(index)

    one = fetcher(broken)
    dataset, collate = one.dataset, one.collate_fn
    with pytest.raises(KeyError):
        agent_fetch._fetch(plain)(one, [0])
    assert (one.dataset, one.collate_fn, state.in_fetch) == (dataset, collate, False)


@pytest.mark.usefixtures("_worker")
def test_slow_fetches_are_all_looked_at(tmp_path: Path) -> None:
    fetch, one = agent_fetch._fetch(plain), fetcher(slow)
    for _ in range(4):
        fetch(one, [1])
    assert len(log(tmp_path).of(wire.FETCH)) == 4


@pytest.mark.usefixtures("_worker")
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


@pytest.mark.usefixtures("_worker")
def test_pages_that_a_fetch_maps_are_counted(tmp_path: Path) -> None:
    fetch = agent_fetch._fetch(plain)
    for get in (slow, touched):
        fetch(fetcher(get), [0, 1])
    few, many = (count.minor_faults for count in log(tmp_path).of(wire.COUNT))
    assert many - few == pytest.approx(2000, abs=256)


@pytest.mark.usefixtures("_worker")
def test_a_worker_whose_file_fills_up_looks_more_seldom(tmp_path: Path) -> None:
    state.floor = 4
    fetch, one = agent_fetch._fetch(plain), fetcher(slow)
    for _ in range(8):
        fetch(one, [1])
    assert len(log(tmp_path).of(wire.FETCH)) == 2
    for _ in range(8):
        worker._pickled(1, 0, 100)
    assert len(log(tmp_path).of(wire.PICKLE)) == 2


@pytest.mark.usefixtures("_worker")
def test_some_samples_are_remembered_by_their_bytes(tmp_path: Path) -> None:
    fetch, one = agent_fetch._fetch(plain), fetcher(slow, length=200)
    for _ in range(2):
        fetch(one, [0, 1, 4])
    samples = log(tmp_path).of(wire.SAMPLE)
    assert sorted(row.dataset_index for row in samples) == [0, 0, 4, 4]
    assert len({(row.dataset_index, row.checksum) for row in samples}) == 2, (
        "the same index gave the same bytes"
    )


@pytest.mark.usefixtures("_worker")
@pytest.mark.parametrize("index", [3, [], ["name"], [(1, 2)], None])
def test_an_index_of_any_kind_passes(index: Any) -> None:
    one = fetcher(slow)
    assert agent_fetch._fetch(lambda self, given: given)(one, index) == index


DATA = bytes(range(256)) * 4000


@pytest.fixture
def _worker_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is a worker inside a fetch for the length of a test."""
    state.begin(str(tmp_path))
    state.worker = state.in_fetch = True
    monkeypatch.setattr(transforms, "watch", transforms.TransformTimes())
    monkeypatch.setattr(fetch, "_names", {})
    yield
    state.begin(str(tmp_path))


@pytest.fixture
def unpackers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks on unpackers, taken off afterwards."""
    streams = sys.modules.get("_compression") or sys.modules["compression._common._streams"]
    for module in (zlib, bz2, lzma, gzip, zipfile, streams):
        for name, value in list(vars(module).items()):
            if name in ("decompress", "_GzipReader", "ZipExtFile", "DecompressReader"):
                inner = "_read1" if name == "ZipExtFile" else "read"
                owner, attribute = (value, inner) if isinstance(value, type) else (module, name)
                if attribute in vars(owner):
                    monkeypatch.setattr(owner, attribute, vars(owner)[attribute])
        input_ops.unpackers()[module.__name__](module)


def kinds(folder: Path, kind: int) -> list[Row]:
    return log(folder).of(kind)


def _xz() -> bytes:
    with lzma.LZMAFile(io.BytesIO(lzma.compress(DATA))) as file:
        return file.read()


def _read(file: Any) -> bytes:
    with file:
        data: bytes = file.read()
        return data


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", DATA)
    with zipfile.ZipFile(file) as archive:
        return archive.read("a")


@pytest.mark.usefixtures("_worker_making")
@pytest.mark.parametrize(
    "read",
    [
        lambda: zlib.decompress(zlib.compress(DATA)),
        lambda: gzip.decompress(gzip.compress(DATA)),
        lambda: _read(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(DATA)))),
        lambda: _read(bz2.BZ2File(io.BytesIO(bz2.compress(DATA)))),
        lambda: lzma.decompress(lzma.compress(DATA)),
        _xz,
        zipped,
    ],
)
def test_unpacking_is_timed_once_and_gives_what_it_gave(
    read: Callable[[], bytes], tmp_path: Path, unpackers: None
) -> None:
    fetch.begin_batch(None, 1)
    assert read() == DATA
    fetch.end(1, 7, 1, False, None)
    (row,) = kinds(tmp_path, wire.UNPACK)
    assert (row.cpu_ns > 0, row.bytes, row.loader) == (True, len(DATA), 7)


@pytest.mark.usefixtures("_worker_making")
def test_unpacking_outside_of_a_fetch_is_nobodys_business(tmp_path: Path, unpackers: None) -> None:
    fetch.begin_batch(None, 1)
    state.in_fetch = False
    zlib.decompress(zlib.compress(DATA))
    fetch.end(1, 0, 1, False, None)
    assert kinds(tmp_path, wire.UNPACK) == []


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


class Data:
    def __init__(self, *steps: Any) -> None:
        self.transform = Compose([*steps, str.upper])
        self.dataset = self  # wrapped in itself: the search must end


@pytest.mark.usefixtures("_worker_making")
def test_each_class_of_transform_is_timed_in_some_fetches(tmp_path: Path) -> None:
    data = Data(Blur(), Inner())
    for fetches in range(2 * fetch.TRANSFORMS_EVERY):
        fetch.begin_batch(data, fetches)
        assert data.transform("a") == "A"
        fetch.end(fetches + 1, 0, 9, False, None)
    names = {one["number"]: one["name"] for one in log(tmp_path).facts if one.get("fact") == "transform"}
    seen = [(names[row.number], row.cpu_ns > 0) for row in kinds(tmp_path, wire.TRANSFORM)]
    assert sorted(seen) == [("Blur", True), ("Blur", True), ("Inner", True), ("Inner", True)]


@pytest.mark.usefixtures("_worker_making")
def test_a_transform_that_fails_fails_as_it_did_and_is_timed_again(tmp_path: Path) -> None:
    data = Data(Breaks())
    fetch.begin_batch(data, 0)
    for _ in range(2):
        with pytest.raises(KeyError, match="a"):
            data.transform("a")
    fetch.end(1, 0, 9, False, None)
    assert len(kinds(tmp_path, wire.TRANSFORM)) == 1
    assert not transforms.watch.inside


@pytest.mark.usefixtures("_worker_making")
def test_a_plain_list_of_transforms_is_found_too(tmp_path: Path) -> None:
    data = SimpleNamespace(augmentations=[Blur()])
    fetch.begin_batch(data, 0)
    data.augmentations[0]("a")
    fetch.end(1, 0, 9, False, None)
    assert len(kinds(tmp_path, wire.TRANSFORM)) == 1


@pytest.mark.usefixtures("_worker_making")
@pytest.mark.parametrize("dataset", [None, 3, object(), Data(len), Data("no callable"), {"transform": 1}])
def test_a_data_set_of_any_kind_passes(dataset: Any, tmp_path: Path) -> None:
    fetch.begin_batch(dataset, 0)
    fetch.end(1, 0, 9, False, None)
    assert kinds(tmp_path, wire.TRANSFORM) == []


@pytest.mark.usefixtures("_worker_making")
def test_the_first_batches_of_an_iterable_are_remembered(tmp_path: Path) -> None:
    for place in range(1, fetch.FIRST_BATCHES + 3):
        fetch.end(place, 0, place, True, b"batch %d" % (place % 3))
    fetch.end(99, 0, 1, False, b"a map-style batch")
    rows = log(tmp_path).of(wire.FIRST_BATCH)
    assert [row.place for row in rows] == list(range(1, fetch.FIRST_BATCHES + 1))
    assert len({row.checksum for row in rows}) == 3


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
    assert sum(count or 0 for count in tables["KeptOpen"].containers) in (
        1,
        2,
    )  # once a worker, once an epoch


@pytest.mark.parametrize("told", [0], indirect=True)
def test_a_script_that_opens_containers_prints_the_same_without_us(told: Told, tmp_path: Path) -> None:
    assert plain_patch_containers(tmp_path, PRELUDE + ZIPS.replace("WORKERS", "0")).stdout == told.stdout


def test_a_library_that_opens_in_c_is_heard_too(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    profile = profile_of(watched(tmp_path, PRELUDE + HDF5))
    (table,) = profile.fetches
    assert set(table.containers) == set(table.opens) == {4}
    assert profile.hot_files[0].suffixes == {".h5": 1}


def test_only_decoding_inside_fetches_counts() -> None:
    decoder = ModuleType("quickjpeg")
    decoder.decode = lambda data: sum(range(20_000)) and data  # type: ignore[attr-defined]
    input_ops._decoder_patcher(("decode",))(decoder)
    state.in_fetch, state.decode_ns = False, 0
    assert decoder.decode(b"x") == b"x"
    assert state.decode_ns == 0
    state.in_fetch = True
    assert decoder.decode(b"x") == b"x"
    state.in_fetch = False
    assert state.decode_ns > 0


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
@pytest.mark.parametrize("workers", [0, 1])
def test_draws_are_timed_by_the_batch_and_at_each_start(workers: int, tmp_path: Path) -> None:
    script = PRELUDE + SCRIPT.format(workers=workers)
    (tmp_path / "plain").mkdir()
    told = watched(tmp_path, script)
    assert said(told) == said(plain_patch_sampler(tmp_path / "plain", script)), (
        "the same samples in the same order"
    )
    (making,) = profile_of(told).makings
    assert making.draw_s is not None
    assert making.draw_s > 0.006, "four indices of two milliseconds each, and a draw that finds the end"
    assert making.draw_cpu_s is not None
    assert making.draw_cpu_s < 0.5 * making.draw_s, "they were slept, not computed"
    assert sum(making.first_draws_s) > 3 * 0.045
