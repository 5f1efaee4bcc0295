"""Constructions on the same line with the same arguments are one loader."""

from __future__ import annotations

from bottleneck_doctor.assemble.loaders import read_loaders
from bottleneck_doctor.model.code import Location
from tests.assemble.logs import loader_fact, log


def test_a_loader_built_each_epoch_is_one() -> None:
    facts = [loader_fact(1, line=7), loader_fact(2, line=7, dataset="Data1"), loader_fact(3, line=8)]
    loaders, numbering = read_loaders([log([], facts=facts)])
    assert [loader.dataset for loader in loaders] == ["Data1", "Data3"]
    assert numbering[100, 1] == numbering[100, 2] != numbering[100, 3]


def test_the_same_line_in_two_processes_is_two_loaders() -> None:
    ranks = [log([], pid=pid, facts=[loader_fact()]) for pid in (100, 200)]
    loaders, numbering = read_loaders(ranks)
    assert [loader.pid for loader in loaders] == [100, 200]
    assert numbering[100, 1] != numbering[200, 1]


def test_a_fact_with_hardly_anything_in_it_is_a_loader_still() -> None:
    (loader,), _ = read_loaders([log([], facts=[{"fact": "loader"}])])
    assert (loader.dataset, loader.batch_size, loader.num_workers, loader.location) == ("", None, 0, None)


def test_places_are_kept() -> None:
    fact = loader_fact(function="main", dataset_at=["data.py", 3])
    (loader,), _ = read_loaders([log([], facts=[fact])])
    assert loader.location == Location("train.py", 1, "main")
    assert loader.dataset_location == Location("data.py", 3)
