"""Cases of the findings in workers.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, EpochStart, Scenario, Step, StepCost
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.loops import Epochs, Loader, Making, Payload
from bottleneck_doctor.model.run import Process
from tests.findings.builders import Case, abstains, fires, inputs_of, loop_of, silent, steady_run

# workers-too-few
SLOW, FEW_COST = BatchCost(0.0, wait=0.02), StepCost(0.0, 0.005)
UNTIMED = replace(inputs_of(SLOW, 1, 0.02), busy=None)


def workers_too_few() -> tuple[Case, ...]:
    return (
        fires("one worker waits 20 ms for each batch", steady_run(SLOW, FEW_COST, 1), "workers-auto"),
        fires("one worker on two cores", steady_run(BatchCost(0.02), FEW_COST, 1), "workers-auto"),
        silent("the cores are full", steady_run(BatchCost(0.02), StepCost(0.0, 0.002), 4)),
        silent("the workers keep up", steady_run(BatchCost(0.004), StepCost(0.0, 0.01), 1)),
        silent("no workers at all", steady_run(SLOW, FEW_COST)),
        abstains("the workers were not seen", steady_run(SLOW, FEW_COST, 1, inputs=UNTIMED)),
    )


# workers-too-many
def _many_case(cost: StepCost, workers: int, threads: float, queue: float | None) -> Diagnosis:
    """A CPU model and workers of 6 ms a batch on two cores; the loop lacks a core for ``queue`` of 14 ms."""
    scene = Scenario((BatchCost(0.006),), (cost,), workers=workers, cores=2.0, threads=threads)
    base = steady_run(BatchCost(0.006), cost, workers=workers, scenario=scene)
    row: Step = replace(base.steps[0], wall=0.014, queue=queue)
    return replace(base, steps=[row] * len(base.steps))


def workers_too_many() -> tuple[Case, ...]:
    return (
        fires("four workers and two threads", _many_case(StepCost(0.01), 4, 2.0, 0.004), "reserve-cores"),
        silent("one worker and one thread", _many_case(StepCost(0.01), 1, 1.0, 0.0)),
        silent("four workers, but the loop sleeps", _many_case(StepCost(0.0, 0.01), 4, 1.0, 0.0)),
        silent("two threads that always have their cores", _many_case(StepCost(0.01), 2, 2.0, 0.0002)),
        abstains("waits for a core were not counted", _many_case(StepCost(0.01), 4, 2.0, None)),
    )


# worker-respawn
WORK, RESPAWN_COST = BatchCost(0.002), StepCost(0.0, 0.003)


def _respawn_case(steps: int, start: float, persistent: bool = False, started: int = 0) -> Diagnosis:
    """Two workers; epochs of ``steps`` steps of 3 ms, which take ``start`` seconds to begin."""
    scene = Scenario((WORK,), (RESPAWN_COST,), workers=2, cores=2.0, epoch=EpochStart(steps, start))
    base = steady_run(WORK, RESPAWN_COST, workers=2, scenario=scene)
    assert base.loader is not None
    loader = replace(base.loader, persistent_workers=persistent)
    loop = replace(loop_of(400), epochs=Epochs([0.0], [0.0], [0.0], [steps]))
    seen = [Process(place, 1, "worker", 0.0, loader=loader.key) for place in range(started)]
    return replace(base, loader=loader, loop=loop, profile=replace(base.profile, processes=seen))


def worker_respawn() -> tuple[Case, ...]:
    return (
        fires("epochs of twenty short steps", _respawn_case(20, 0.12), "persistent-workers"),
        fires("the loader is built anew each epoch", _respawn_case(20, 0.12, True, 6), "persistent-workers"),
        silent("epochs of ten thousand steps", _respawn_case(10_000, 0.12)),
        silent("persistent workers", _respawn_case(20, 0.05, True, 2)),
        abstains("one epoch", _respawn_case(0, 0.0)),
    )


# shm-exhaustion
def _shm_case(
    batch_bytes: float, room: float | None = 64e6, used: float = 40.0, workers: int = 4
) -> Diagnosis:
    """Four workers in a container with ``room`` bytes free in /dev/shm."""
    base = steady_run(BatchCost(0.001), StepCost(0.01), workers=workers)
    values: dict[str, list[float | None]] = {"descriptors": [used], "descriptor_limit": [256.0]}
    if room is not None:
        values["shm_free_bytes"] = [room]
    facts = replace(
        base.profile, payloads=[Payload("1:1", 9, 2.0, batch_bytes)], series=Series([1.0], values)
    )
    return replace(base, profile=facts)


def shm_exhaustion() -> tuple[Case, ...]:
    return (
        fires("nine batches of 8 MB, 64 MB of room", _shm_case(8e6)),
        fires("most descriptors are in use", _shm_case(1e5, used=240.0)),
        silent("small batches", _shm_case(1e6)),
        silent("one process", _shm_case(8e6, workers=0)),
        abstains("the room is not known", _shm_case(8e6, room=None)),
    )


# iterable-sharding
STREAM = Loader("1:1", "dataloader", 1, "Stream", dataset_kind="iterable", batch_size=32)


def _sharding_case(firstlings: tuple[int, int], loader: Loader = STREAM) -> Diagnosis:
    """Two workers over an iterable data set."""
    base = steady_run(BatchCost(0.02), StepCost(0.0, 0.004), workers=2, loader=loader)
    makings = [Making("1:1", 400, firstlings=firstlings)]
    return replace(base, profile=replace(base.profile, makings=makings))


def iterable_sharding() -> tuple[Case, ...]:
    return (
        fires("both workers read everything", _sharding_case((8, 8)), "shard-by-worker"),
        silent("each worker has its part", _sharding_case((8, 0))),
        silent("a map-style data set", _sharding_case((0, 0), loader=replace(STREAM, dataset_kind="map"))),
        abstains("batches without bytes to compare", _sharding_case((0, 0))),
    )
