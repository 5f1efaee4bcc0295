"""Diagnoses on which findings are tested: steady runs, accelerators, ranks."""

from dataclasses import astuple, dataclass, replace

from bottleneck_doctor.analyse.device import runs_ahead
from bottleneck_doctor.analyse.metrics import data_wait
from bottleneck_doctor.analyse.replay import step_seconds
from bottleneck_doctor.analyse.scenario import device_cost
from bottleneck_doctor.analyse.verdict import Trust, decide
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.device import (
    DeviceClockStep,
    DeviceFacts,
    DeviceView,
    DeviceWindow,
    DriverView,
    Kernels,
    TorchSettings,
)
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, HostLoad, Inputs, Scenario, Step, StepCost
from bottleneck_doctor.model.instruments import Operation, Operator
from bottleneck_doctor.model.loops import Epochs, Loader, Loop, Parallel, Passes, Ranks, StepTable
from bottleneck_doctor.model.profile import Computing, DispatchBreakdown, Profile
from bottleneck_doctor.model.report import Overhead, Quality
from bottleneck_doctor.model.run import Machine, Process, Run


@dataclass(frozen=True)
class Case:
    """A diagnosis and what must come of it: ``fires``, ``silent`` or ``abstains``."""

    name: str
    diagnosis: Diagnosis
    outcome: str
    remedies: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def fires(name: str, diagnosis: Diagnosis, remedies: str = "") -> Case:
    """A run in which it fires with these remedies, without those with a minus; ``none``: with none."""
    named = remedies.split()
    wanted, others = ([one for one in named if one.startswith("-") is minus] for minus in (False, True))
    return Case(name, diagnosis, "fires", tuple(wanted), tuple(one[1:] for one in others))


def silent(name: str, diagnosis: Diagnosis) -> Case:
    """A run in which it is not made."""
    return Case(name, diagnosis, "silent")


def abstains(name: str, diagnosis: Diagnosis) -> Case:
    """A run in which the finding itself lacks something; what its needs ask for is not shown for each."""
    return Case(name, diagnosis, "abstains")


PLACE = Location("train.py", 12, "main")


def steady_run(
    work: BatchCost,
    cost: StepCost,
    workers: int = 0,
    cores: float = 2.0,
    inputs: Inputs | None = None,
    loader: Loader | None = None,
    scenario: Scenario | None = None,
    operations: tuple[Operation, ...] = (),
) -> Diagnosis:
    """A steady run whose every step is the same; what is not given follows from ``work`` and ``cost``."""
    scene = scenario or Scenario((work,), (cost,), workers=workers, cores=cores)
    step_s = step_seconds(scene)
    own = sum(astuple(cost))
    cpu = cost.compute + cost.python + cost.launch
    wait = max(0.0, step_s - own)
    row = Step(
        t=1.0, steps=1, wall=step_s, wait=wait, backward=0.0, optimizer=0.0, checkpoint=cost.checkpoint,
        logging=cost.logging, collect=cost.collect, copy=0.0, compute=cpu + cost.idle,
        exchange=cost.comm + cost.straggler,
        cpu=cpu, queue=0.0, process_cpu=None, wait_cpu=None,
    )  # fmt: skip
    photos = Loader("1:1", "dataloader", 1, "Photos", batch_size=32, dataset_length=50_000, location=PLACE)
    source = loader or photos
    source = replace(source, num_workers=workers, prefetch_factor=2 if workers else None)
    made = inputs or inputs_of(work, workers, step_s)
    verdict, causes = decide(scene, made, source, HostLoad(cores), Trust(400, 400 * step_s, 0.05, 100))
    run = Run(["python", "train.py"], "train.py", "/", "", 60.0, 0)
    facts = Profile(run, Machine("", "", "", int(cores), cores), processes=[Process(1, 0, "trainer", 0.0)])
    facts = replace(facts, operations=list(operations), loaders=[source])
    return Diagnosis(
        profile=facts, loop=loop_of(400), source=None, loader=source, steps=[row] * 400,
        inputs=made, host=HostLoad(cores=cores, job_cores=1.0, foreign_cores=0.0), scenario=scene,
        step_s=step_s, wait_s=wait,
        model_error=0.05, metrics={"data_wait_fraction": data_wait([row])}, budget=[],
        quality=Quality(400, 10, 0.02, Overhead(None, None, None)),
        verdict=verdict, causes=causes,
    )  # fmt: skip


def inputs_of(work: BatchCost, workers: int, step_s: float, **more: object) -> Inputs:
    """The inputs that a fetch of ``work`` would have left; further fields by name."""
    wall = work.cpu + work.collate + work.storage + work.network + work.wait
    base = Inputs(
        batches=400, wall=wall, cpu=work.cpu + work.collate, collate=work.collate, storage=work.storage,
        network=work.network, wait=work.wait, waits={"sleep": work.wait} if work.wait else {}, samples=32.0,
        busy=min(1.0, wall / (workers * step_s)) if workers else None, blocked_samples=100,
        storage_bytes=0.0, read_bytes=0.0, reads=0.0, opens=0.0,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def loop_of(steps: int, epochs: int = 3) -> Loop:
    """A training loop of that many steps in equal epochs."""
    batches = [steps // epochs] * epochs
    zeros = [0.0] * epochs
    rounds = Epochs(zeros, zeros, zeros, batches)
    return Loop("1:1", 1, 0, "train", steps, 0.0, 0.0, rounds, StepTable(), steps, steps)


def accelerator_run(
    beat: DeviceWindow | None,
    facts: DeviceFacts | None = None,
    driver: DriverView | None = None,
    wait_s: float = 0.0,
    loader: Loader | None = None,
    work: BatchCost | None = None,
) -> Diagnosis:
    """Two workers feed a loop whose device keeps this beat.

    Without a beat the device was seen by the driver only, and the loop's 20 ms belong to nobody known.
    """
    view = DeviceView(facts or DeviceFacts(), driver or DriverView(), beat)
    cost = device_cost(beat or DeviceWindow(0, 0.0, 0.0))
    cost = cost if beat is not None else replace(cost, idle=0.02)
    batch = work or BatchCost(1e-3)
    ahead = runs_ahead(view, wait_s)
    scene = Scenario((batch,), (cost,), workers=2, cores=4.0, ahead=ahead)
    base = steady_run(batch, cost, workers=2, cores=4.0, scenario=scene, loader=loader)
    host = HostLoad(
        4.0, job_cores=1.0, foreign_cores=0.0, accelerated=True, device_busy=view.driver.kernel_share
    )
    trust = Trust(400, 400 * step_seconds(scene), 0.05, 100)
    verdict, causes = decide(scene, base.inputs, base.loader, host, trust, device=view)
    trainer = [replace(base.profile.processes[0], device="cuda")]
    profile = replace(base.profile, processes=trainer, device=view.facts)
    return replace(base, profile=profile, host=host, device=view, verdict=verdict, causes=causes)


def gpu_run(
    beat: DeviceWindow,
    computing: Computing | None = None,
    table: list[Operator] | None = None,
    found: list[Kernels] | None = None,
    **parts: float,
) -> Diagnosis:
    """The same with these facts about how the model computes on it, operators with their kernels' time, and
    seconds of a step between marks on the device: ``optimizer_s``, ``backward_s``."""
    rest_s = beat.wall_s - beat.input_s - beat.transfer_s
    clock = DeviceClockStep(400, beat.wall_s, beat.input_s, rest_s, transfer_s=beat.transfer_s, **parts)
    some, settings = found or [kernels("matmul", 0.97, "bfloat16")], TorchSettings(compiled=False)
    facts = DeviceFacts(capability=(9, 0), kernels=some, switches=settings, window=beat)
    base = accelerator_run(beat, facts)
    profile = replace(base.profile, computing=computing or Computing(), operators=table or [])
    return replace(base, profile=profile, device=DeviceView(facts, DriverView(), beat, clock))


def kernels(kind: str, share: float, precision: str = "") -> Kernels:
    """Simulated kernels that take this share of a step of 20 ms."""
    return Kernels(kind, share * 0.02, 100.0, 1e-4, precision)


# Simulated steps, in seconds: what the device's clock would say of each.
SATURATED = DeviceWindow(400, 0.02, 0.0195, launch_s=0.0005, host_s=0.008)
STARVED = DeviceWindow(400, 0.02, 0.004, input_s=0.0155, launch_s=0.0005, host_s=0.003)
LAUNCHING = DeviceWindow(400, 0.02, 0.006, launch_s=0.014, host_s=0.02)
SYNCING = DeviceWindow(400, 0.02, 0.013, launch_s=0.001, sync_s=0.006, host_s=0.012)
COPYING = DeviceWindow(400, 0.02, 0.011, transfer_s=0.009, host_s=0.006)


def cpu_run(cost: StepCost, computing: Computing, table: list[Operator] | None = None) -> Diagnosis:
    """A run of process 1 whose loop takes ``cost``, with these facts about how it computes."""
    sick = steady_run(BatchCost(2e-4), cost)
    return replace(sick, profile=replace(sick.profile, computing=computing, operators=table or []))


def dispatch_like(cost: StepCost, operators: int = 200, large: float = 0.8) -> DispatchBreakdown:
    """The profiled step of such a turn: ``large`` is the share of operators' time in large ones."""
    whole = cost.compute + cost.python + cost.launch
    return DispatchBreakdown(1, operators, whole, whole, cost.compute + cost.launch / 2, cost.compute,
                   large * cost.compute, cost.launch / 2, cost.python)  # fmt: skip


MODEL = Parallel(1, "ddp", "train.py", 12, "main", 16, 8_400_000, world_size=2, backend="gloo",
                 arguments={"gradient_as_bucket_view": "False", "find_unused_parameters": "False"},
                 bucket_bytes=[1_000_000, 7_400_000], unused_bytes=0)  # fmt: skip
PASSES = Passes(1, True, 400, 0, 1.0, 0.008, 0.009, 0.001)


def two_ranks(
    cost: StepCost,
    slower: float = 0.0,
    model: Parallel | None = MODEL,
    passes: tuple[Passes, ...] = (PASSES,),
    world: int = 2,
    rotating: bool = False,
) -> Diagnosis:
    """Two ranks in step: the other's own work takes ``slower`` s longer, ``rotating``: by turns with ours."""
    sick = steady_run(BatchCost(2e-4), cost)
    loop = sick.loop
    assert loop is not None
    slept = cost.comm + cost.straggler
    mine, other = _loops(loop, sick.step_s, slept, slower, rotating)
    trainers = [Process(pid, 0, "trainer", 0.0, rank=pid - 1, world_size=world) for pid in (1, 2)]
    ranks = Ranks([model] if model is not None else [], list(passes))
    facts = replace(sick.profile, processes=trainers, loops=[mine, other], ranks=ranks)
    return replace(sick, profile=facts, loop=mine)


def _loops(loop: Loop, step_s: float, slept: float, slower: float, rotating: bool) -> tuple[Loop, Loop]:
    count = 60
    costs = [rotating and place % 2 == 1 for place in range(count)]
    waits = [slept - slower if flipped else slept for flipped in costs]
    others = [slept if flipped else slept - slower for flipped in costs]
    tables = [
        StepTable(
            t=[step_s * (place + 1) for place in range(count)],
            steps=[1] * count,
            wall_s=[step_s] * count,
            exchange_s=[max(0.0, wait) for wait in column],
            set_aside=[""] * count,
            runq_s=[0.0] * count,
        )
        for column in (waits, others)
    ]
    return tuple(replace(loop, pid=pid, table=table) for pid, table in zip((1, 2), tables, strict=True))  # type: ignore[return-value]
