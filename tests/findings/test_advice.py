"""How a treatment is told which loader is meant."""

from __future__ import annotations

from bottleneck_doctor.findings.advice import loader_with, meant
from bottleneck_doctor.model.profile import Loader, Location

BUILT = Loader(
    "1:1",
    "dataloader",
    1,
    "Photos",
    "map",
    640,
    32,
    sampler="RandomSampler",
    location=Location("train.py", 12),
)


def test_a_loader_is_known_by_its_place_and_by_what_it_is_given() -> None:
    assert meant(BUILT) == {
        "file": "train.py", "line": 12, "batch_size": 32, "dataset": "Photos", "length": 640,
        "sampler": "RandomSampler",
    }  # fmt: skip


def test_what_the_profile_does_not_know_is_not_asked_for() -> None:
    stream = Loader("1:1", "dataloader", 1, "Stream", "iterable", location=Location("train.py", 12))
    assert meant(stream) == {"file": "train.py", "line": 12, "batch_size": None, "dataset": "Stream"}
    assert meant(Loader("1:1", "dataloader", 1)) is None


def test_the_treatment_holds_the_arguments_and_the_loader() -> None:
    one = loader_with(BUILT, num_workers=2)
    assert (one.name, one.options) == ("loader", {"where": meant(BUILT), "arguments": {"num_workers": 2}})
