"""Opening a container inside a fetch is timed and counted; outside it is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.watching import PRELUDE, Told, plain, profile_of, said, watched

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
    assert plain(tmp_path, PRELUDE + ZIPS.replace("WORKERS", "0")).stdout == told.stdout


def test_a_library_that_opens_in_c_is_heard_too(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    profile = profile_of(watched(tmp_path, PRELUDE + HDF5))
    (table,) = profile.fetches
    assert set(table.containers) == set(table.opens) == {4}
    assert profile.hot_files[0].suffixes == {".h5": 1}
