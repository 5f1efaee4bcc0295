"""Which loader a treatment means, and what more workers, or cores kept for the model, are promised."""

from dataclasses import replace

import pytest

from bottleneck_doctor.findings.remedies import as_served, meant, reserve_cores, sharing_cores
from bottleneck_doctor.findings.storage import remote_storage_latency
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import BatchCost, Change, Diagnosis, Proposal, Scenario, StepCost
from bottleneck_doctor.model.loops import Loader
from bottleneck_doctor.model.profile import Computing, ScriptSettings
from bottleneck_doctor.model.report import Fix
from bottleneck_doctor.model.run import Treatment
from tests.analyse.test_stack_lines import FETCH, worker
from tests.findings.builders import inputs_of, steady_run

PLACE = Location("train.py", 12)
BUILT = Loader("1:1", "dataloader", 1, "Photos", "map", 640, 32, sampler="RandomSampler", location=PLACE)


def test_a_loader_is_known_by_its_place_and_by_what_it_is_given() -> None:
    assert meant(BUILT) == {
        "file": "train.py", "line": 12, "batch_size": 32, "dataset": "Photos", "length": 640,
        "sampler": "RandomSampler",
    }  # fmt: skip
    stream = Loader("1:1", "dataloader", 1, "Stream", "iterable", location=PLACE)
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


@pytest.mark.parametrize(("asking", "most"), [(100, 20.0), (20, 7.5)])
def test_a_copy_spares_the_cpu_of_the_line_that_asks_and_of_no_other(asking: int, most: float) -> None:
    work = BatchCost(0.02, network=0.1)
    sick = steady_run(work, StepCost(0.0, 0.003), workers=2, inputs=inputs_of(work, 2, 0.06))
    seen = ((20, 90, asking), (22, 10, 100 - asking))
    stacks = [worker([FETCH, f"get (/data/train.py:{line})"], count, awake) for line, count, awake in seen]
    found = remote_storage_latency.examine(replace(sick, profile=replace(sick.profile, stacks=stacks)))
    told = {one.id: one.most for one in getattr(found, "proposals", ())}
    assert told["local-mirror"] == told["bigger-requests"] == pytest.approx(most, rel=0.05)


@pytest.mark.parametrize(
    ("threads", "cores", "environment", "is_set"),
    [
        (2.0, 2.0, {}, True),
        (2.0, 4.5, {}, False),  # each worker has a core of its own
        (1.0, 2.0, {}, False),  # a single thread waits for no other
        (2.0, 2.0, {"OMP_WAIT_POLICY": "ACTIVE"}, False),  # the user chose
    ],
)
def test_where_workers_and_the_models_threads_share_cores_the_threads_are_to_sleep_while_they_wait(
    threads: float, cores: float, environment: dict[str, str], is_set: bool
) -> None:
    work, cost = BatchCost(0.03), StepCost(0.005)
    base = steady_run(work, cost, scenario=Scenario((work,), (cost,), cores=cores, threads=threads))
    known = Computing(switches=[ScriptSettings(1, environment=environment)])
    sick = replace(base, profile=replace(base.profile, computing=known))
    loader = Treatment("loader", {})
    proposal = Proposal(
        "workers-auto", "make batches in 2 workers", Fix("", "DataLoader()"), treatments=(loader,)
    )
    said = sharing_cores(sick, proposal, 2)
    if not is_set:
        assert said == proposal
        return
    assert said.treatments == (loader, Treatment("environment", {"OMP_WAIT_POLICY": "PASSIVE"}))
    assert "OMP_WAIT_POLICY=PASSIVE" in said.title
    assert "OMP_WAIT_POLICY=PASSIVE python train.py" in said.fix.snippet


MAKING_S, MODEL_S = 0.030, 0.020


def sick(threads: float = 2.0, cores: float = 2.0) -> Diagnosis:
    """Batches of 30 ms made in the main process, beside a model of 20 ms on two threads."""
    work, cost = BatchCost(MAKING_S), StepCost(MODEL_S)
    return steady_run(work, cost, scenario=Scenario((work,), (cost,), cores=cores, threads=threads))


def test_workers_and_one_thread_beat_workers_beside_two_unless_cores_are_plenty() -> None:
    (proposal,) = reserve_cores(sick())
    assert proposal.factor is not None
    low, likely, high = proposal.factor
    assert low == 1.0 < likely < high, "one thread was not measured: the worst case orders it"
    assert proposal.most == high
    assert reserve_cores(sick(cores=16.0)) == []
