"""How a treatment is told which loader is meant, and what more workers are promised."""

from __future__ import annotations

import pytest

from bottleneck_doctor.findings.parts.loader_remedies import as_served, loader_with, meant
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import BatchCost, Change, Proposal, StepCost
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.report import Fix
from tests.findings.builders import inputs_of, steady_run

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


@pytest.mark.parametrize(
    ("work", "workers", "is_bound"),
    [
        (BatchCost(0.001, network=0.03), 12, True),
        (BatchCost(0.001, network=0.03), 4, False),  # twice as many: the server was nearly seen to serve them
        (BatchCost(0.001, wait=0.03), 12, False),
        (BatchCost(0.03, network=0.005), 12, False),
    ],
)
def test_far_more_workers_than_a_server_was_seen_to_serve_are_promised_a_bound(
    work: BatchCost, workers: int, is_bound: bool
) -> None:
    sick = steady_run(work, StepCost(0.0, 0.003), workers=2, inputs=inputs_of(work, 2, 0.0155))
    proposal = Proposal("workers-auto", "more", Fix("", ""), change=Change(workers=workers), basis="replay")
    told = as_served(sick, proposal)
    if not is_bound:
        assert told == proposal
        return
    assert (told.change, told.basis) == (None, "bound")
    assert told.most is not None
    assert 2 < told.most < 12


def test_the_treatment_holds_the_arguments_and_the_loader() -> None:
    one = loader_with(BUILT, num_workers=2)
    assert (one.name, one.options) == ("loader", {"where": meant(BUILT), "arguments": {"num_workers": 2}})
