"""Cases of the findings in input.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.findings.registry import given
from bottleneck_doctor.model.device import DeviceFacts, DeviceView, DriverView
from bottleneck_doctor.model.diagnosis import (
    BatchCost,
    CostShares,
    Diagnosis,
    EpochStart,
    Inputs,
    Scenario,
    StepCost,
    Transport,
)
from bottleneck_doctor.model.loops import Making, Payload
from bottleneck_doctor.model.profile import Computing
from tests.findings.builders import STARVED, Case, abstains, cpu_run, fires, inputs_of, silent, steady_run

# loader-in-main
ON_DEVICE = DeviceView(DeviceFacts(copies=[]), DriverView(), STARVED)


def _asking() -> Diagnosis:
    """A user's function waits 20 ms for each batch, and the model computes for 20 ms."""
    base = steady_run(BatchCost(5e-4, wait=0.02), StepCost(0.02))
    assert base.loader is not None
    function = replace(base.loader, kind="function")
    return replace(base, loader=function, inputs=Inputs(cpu=5e-4, wait=0.02))


def _forcing() -> Diagnosis:
    """A user's function waits 15 ms for each batch until a cache is on the disk, after 5 of computing."""
    base = steady_run(BatchCost(5e-3, storage=0.015), StepCost(5e-3))
    assert base.loader is not None
    inputs = Inputs(batches=400, wall=0.02, cpu=5e-3, storage=0.015, written=0.015, blocked_samples=100)
    return replace(base, loader=replace(base.loader, kind="function"), inputs=inputs)


def loader_in_main() -> tuple[Case, ...]:
    return (
        fires("a function whose cache waits for the disk", _forcing(), "write-less -cache-bytes-ram"),
        fires("decoding in the loop", steady_run(BatchCost(0.01), StepCost(0.0, 0.01)), "workers-auto"),
        fires("a function that asks a server, and sleeps", _asking(), "thread-prefetch"),
        silent("it takes rows of data on the GPU", replace(_asking(), device=ON_DEVICE)),
        silent("two workers already", steady_run(BatchCost(0.01), StepCost(0.0, 0.01), workers=2)),
        silent("data is ready at once", steady_run(BatchCost(0.0001), StepCost(0.0, 0.01))),
    )


# waiting-on-something-else
WAITS_WORK = BatchCost(0.001, wait=0.02)
ASLEEP = inputs_of(WAITS_WORK, 2, 0.0105)


def _waits_case(inputs: Inputs, workers: int = 2) -> Diagnosis:
    return steady_run(WAITS_WORK, StepCost(0.0, 0.003), workers=workers, inputs=inputs)


def _resting(resting: float, idle: float = 0.03) -> Diagnosis:
    """A model computes for 10 ms, the loop sleeps for 30, a share ``resting`` of it in its own lines."""
    base = cpu_run(StepCost(0.01, idle), Computing())
    return replace(base, scenario=replace(given(base.scenario), shares=CostShares(resting=resting)))


def waiting_on_something_else() -> tuple[Case, ...]:
    return (
        fires("an instrument is asked in each step", _resting(1.0), "ask-ahead"),
        silent("the loop sleeps for the model's threads", _resting(0.0)),
        silent("it hardly sleeps", _resting(1.0, idle=0.0005)),
        fires("a sleep before each request", _waits_case(ASLEEP), "workers-auto"),
        fires("the same without workers", _waits_case(ASLEEP, 0), "thread-prefetch"),
        silent("a pool of its own computes", _waits_case(replace(ASLEEP, other_cpu=0.018))),
        silent("decoding", steady_run(BatchCost(0.02), StepCost(0.0, 0.003), workers=2)),
        abstains("no waits were sampled", _waits_case(replace(ASLEEP, blocked_samples=0))),
    )


# ipc-overhead
IPC_WORK, COST = BatchCost(0.002), StepCost(0.003)
ARRAYS = Payload("1:1", 10, 0.0, 0.0, 1e7, 1e7, 0.01)
MANY = Payload("1:1", 10, 200.0, 3e5, 0.0, 14e3, 0.01)
EVENTS = Payload("1:1", 10, 1000.0, 6e4, 0.0, 122e3, 0.06)
SMALL = Payload("1:1", 10, 2.0, 2e3, 0.0, 400.0, 0.0003)


def _ipc_case(payload: Payload, hand_over: float, cost: StepCost = COST) -> Diagnosis:
    """Two workers; the loop takes 3 ms a batch, and ``hand_over`` to receive it."""
    scene = Scenario((IPC_WORK,), (cost,), workers=2, cores=2.0)
    scene = replace(scene, transport=Transport(hand_over, payload.serialise_cpu_s))
    base = steady_run(IPC_WORK, cost, workers=2, scenario=scene)
    return replace(base, profile=replace(base.profile, payloads=[payload]))


def ipc_overhead() -> tuple[Case, ...]:
    return (
        fires("10 MB of arrays through a pipe", _ipc_case(ARRAYS, 0.006), "return-tensors"),
        fires("200 small tensors", _ipc_case(MANY, 0.022), "pack-tensors sharing-file-system"),
        fires("1,000 tensors, faster made than moved", _ipc_case(EVENTS, 0.06), "workers-auto pack-tensors"),
        silent("two tensors", _ipc_case(SMALL, 0.0004)),
        silent("many tensors, but a long step hides them", _ipc_case(MANY, 0.022, StepCost(0.0, 3.0))),
        abstains("no batch was inspected", _ipc_case(replace(ARRAYS, batches=0), 0.006)),
    )


# sampler-on-critical-path
LOOP_COST = StepCost(0.0, 0.008)


def _sampler_case(draw_s: float | None, first_s: float = 0.0) -> Diagnosis:
    """Two fast workers; drawing indices takes ``draw_s`` a batch, and ``first_s`` for an epoch's first."""
    work, epoch = BatchCost(0.001), EpochStart(133, first_s, first_s)
    scene = Scenario((work,), (LOOP_COST,), workers=2, cores=2.0, sampling=draw_s or 0.0, epoch=epoch)
    base = steady_run(work, LOOP_COST, workers=2, scenario=scene)
    loop = replace(base.loop, epochs=replace(base.loop.epochs, t=[0.0, 1.0, 2.0])) if base.loop else None
    makings = [Making("1:1", 400, draw_s=draw_s, first_draws_s=[first_s] * 3)]
    return replace(base, loop=loop, profile=replace(base.profile, makings=makings))


def sampler_on_critical_path() -> tuple[Case, ...]:
    return (
        fires("a sampler that looks up for each batch", _sampler_case(0.002), "sampler-vectorise"),
        fires("weights of a million items are drawn at once", _sampler_case(1e-5, 0.3), "sampler-vectorise"),
        silent("torch's own sampler", _sampler_case(1.5e-5, 2e-4)),
        abstains("the draws were not timed", _sampler_case(None)),
    )
