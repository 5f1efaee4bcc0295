"""Inside a fetch, unpacking, transforms and an iterable's first batches are noted; nothing stays behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import fetch, input_ops, transforms, wire
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import ProcessLog, Row, read_logs

DATA = bytes(range(256)) * 4000


@pytest.fixture(autouse=True)
def _worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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


def log(folder: Path) -> ProcessLog:
    return read_logs(folder)[-1]


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


def test_each_class_of_transform_is_timed_in_some_fetches(tmp_path: Path) -> None:
    data = Data(Blur(), Inner())
    for fetches in range(2 * fetch.TRANSFORMS_EVERY):
        fetch.begin_batch(data, fetches)
        assert data.transform("a") == "A"
        fetch.end(fetches + 1, 0, 9, False, None)
    names = {one["number"]: one["name"] for one in log(tmp_path).facts if one.get("fact") == "transform"}
    seen = [(names[row.number], row.cpu_ns > 0) for row in kinds(tmp_path, wire.TRANSFORM)]
    assert sorted(seen) == [("Blur", True), ("Blur", True), ("Inner", True), ("Inner", True)]


def test_a_transform_that_fails_fails_as_it_did_and_is_timed_again(tmp_path: Path) -> None:
    data = Data(Breaks())
    fetch.begin_batch(data, 0)
    for _ in range(2):
        with pytest.raises(KeyError, match="a"):
            data.transform("a")
    fetch.end(1, 0, 9, False, None)
    assert len(kinds(tmp_path, wire.TRANSFORM)) == 1
    assert not transforms.watch.inside


def test_a_plain_list_of_transforms_is_found_too(tmp_path: Path) -> None:
    data = SimpleNamespace(augmentations=[Blur()])
    fetch.begin_batch(data, 0)
    data.augmentations[0]("a")
    fetch.end(1, 0, 9, False, None)
    assert len(kinds(tmp_path, wire.TRANSFORM)) == 1


@pytest.mark.parametrize("dataset", [None, 3, object(), Data(len), Data("no callable"), {"transform": 1}])
def test_a_data_set_of_any_kind_passes(dataset: Any, tmp_path: Path) -> None:
    fetch.begin_batch(dataset, 0)
    fetch.end(1, 0, 9, False, None)
    assert kinds(tmp_path, wire.TRANSFORM) == []


def test_the_first_batches_of_an_iterable_are_remembered(tmp_path: Path) -> None:
    for place in range(1, fetch.FIRST_BATCHES + 3):
        fetch.end(place, 0, place, True, b"batch %d" % (place % 3))
    fetch.end(99, 0, 1, False, b"a map-style batch")
    rows = log(tmp_path).of(wire.FIRST_BATCH)
    assert [row.place for row in rows] == list(range(1, fetch.FIRST_BATCHES + 1))
    assert len({row.checksum for row in rows}) == 3
