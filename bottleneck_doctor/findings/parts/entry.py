"""What a finding's file declares of itself: its entry, and its cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import TypeVar

from ...analyse.loop_cpu import anatomy_of
from ...analyse.metrics import data_wait
from ...analyse.replay import step_seconds
from ...analyse.step_costs import device_cost, runs_ahead
from ...analyse.verdict import Trust, decide
from ...model.code import Location
from ...model.derived import DeviceStepBreakdown, DeviceView, DriverView
from ...model.device import DeviceFacts, Kernels
from ...model.diagnosis import (
    Abstention,
    BatchCost,
    Diagnosis,
    Finding,
    HostLoad,
    Inputs,
    Proposal,
    Scenario,
    Step,
    StepCost,
)
from ...model.instruments import Operation
from ...model.loops import Epochs, Loader, Loop, StepTable
from ...model.profile import Profile
from ...model.report import Overhead, Quality
from ...model.run import Machine, Process, Run

Known = TypeVar("Known")
Need = Callable[[Diagnosis], "str | None"]  # what a run lacks, None if nothing
Examine = Callable[[Diagnosis], "Finding | Abstention | None"]

LOOP = "a training loop over a loader"
DEVICE_CLOCK = "the accelerator's own clock in a steady training loop"


@dataclass(frozen=True)
class Entry:
    """One finding. ``cause`` is the contract's cause that it belongs to; ``remedies`` are all that it may
    propose, without what only a run can say: factors, changes, places, numbers in snippets. One about the
    ``device`` says nothing of a run without an accelerator, not even what is missing."""

    id: str
    cause: str
    examine: Examine
    device: bool = False
    needs: tuple[Need, ...] = ()
    remedies: tuple[Proposal, ...] = ()

    def ask(self, diagnosis: Diagnosis) -> Finding | Abstention | None:
        """What it says of a run: an abstention where the run lacks what it needs."""
        if self.device and diagnosis.device is None:
            return None
        missing = next((lack for need in self.needs if (lack := need(diagnosis))), None)
        return Abstention(self.id, missing) if missing else self.examine(diagnosis)


def given(value: Known | None) -> Known:
    """What a finding declared among its needs, and which is therefore there."""
    assert value is not None, "declare it in the finding's needs"
    return value


def steady_steps(diagnosis: Diagnosis) -> str | None:
    """``scenario``: what a steady step costs."""
    return "steps of a training loop" if diagnosis.scenario is None else None


def loader_loop(diagnosis: Diagnosis) -> str | None:
    """``loop`` and ``scenario``: steady steps of a loop that was seen to take its batches from a loader."""
    return LOOP if diagnosis.loop is None or diagnosis.scenario is None else None


def timed_fetches(diagnosis: Diagnosis) -> str | None:
    """``scenario``, ``loader`` and timed fetches: nothing is known without them of how batches are made."""
    if diagnosis.scenario is None or diagnosis.loader is None or not diagnosis.inputs.batches:
        return "timed fetches of the loader that feeds the training loop"
    return None


def dataloader_loop(diagnosis: Diagnosis) -> str | None:
    """``loop``, and what ``timed_fetches`` asks for: a loop that takes its batches from a loader itself."""
    return "a training loop over a DataLoader" if diagnosis.loop is None else timed_fetches(diagnosis)


def cpu_loop(diagnosis: Diagnosis) -> str | None:
    """``loop`` and ``scenario`` of a training that computes on the CPU."""
    if diagnosis.host.accelerated and not loader_loop(diagnosis):
        return "operators of the accelerator: only the CPU's were profiled"
    return loader_loop(diagnosis)


def profiled_cpu_step(diagnosis: Diagnosis) -> str | None:
    """What ``cpu_loop`` asks for, and its operators in a profiled step."""
    missing = cpu_loop(diagnosis)
    if missing is None and not (
        diagnosis.profile.operators and anatomy_of(diagnosis.profile, diagnosis.loop)
    ):
        return "a profiled step (the profiler's window needs some seconds of training)"
    return missing


def device_step(diagnosis: Diagnosis) -> str | None:
    """``scenario``, ``device`` and its ``beat``. Neither the driver nor the device's clock can say who waits
    for whom, or whether it computes or waits to be given work: a profiler's window has to."""
    view = diagnosis.device
    if diagnosis.scenario is None or view is None or (view.clock is None and view.beat is None):
        return DEVICE_CLOCK
    if view.beat is None or view.beat.wall_s <= 0:
        return "a profiler's window of the accelerator's kernels"
    return None


@dataclass(frozen=True)
class Case:
    """A diagnosis and what must come of it: ``fires``, ``silent`` or ``abstains``."""

    name: str
    diagnosis: Diagnosis
    outcome: str
    remedy: str = ""


PLACE = Location("train.py", 12, "main")


def patient(
    work: BatchCost,
    cost: StepCost,
    workers: int = 0,
    cores: float = 2.0,
    inputs: Inputs | None = None,
    loader: Loader | None = None,
    scenario: Scenario | None = None,
    operations: tuple[Operation, ...] = (),
    step: Step | None = None,
    profile: Profile | None = None,
    steps: int = 400,
) -> Diagnosis:
    """A steady run whose every step is the same; what is not given follows from ``work`` and ``cost``."""
    scene = scenario or Scenario((work,), (cost,), workers=workers, cores=cores)
    step_s = step_seconds(scene)
    own = sum(astuple(cost))
    cpu = cost.compute + cost.python + cost.launch
    wait = max(0.0, step_s - own)
    row = step or Step(
        t=1.0, steps=1, wall=step_s, wait=wait, backward=0.0, optimizer=0.0, checkpoint=cost.checkpoint,
        logging=cost.logging, collect=cost.collect, copy=0.0, compute=cpu + cost.idle,
        exchange=cost.comm + cost.straggler,
        cpu=cpu, queue=0.0, process_cpu=None, wait_cpu=None, ready=None,
    )  # fmt: skip
    photos = Loader("1:1", "dataloader", 1, "Photos", batch_size=32, dataset_length=50_000, location=PLACE)
    source = loader or photos
    source = replace(source, num_workers=workers, prefetch_factor=2 if workers else None)
    made = inputs or inputs_of(work, workers, step_s)
    verdict, causes = decide(scene, made, source, HostLoad(cores), Trust(steps, steps * step_s, 0.05, 100))
    run = Run(["python", "train.py"], "train.py", "/", "", 60.0, 0)
    facts = profile or Profile(run, Machine("", "", "", int(cores), cores))
    processes = facts.processes or [Process(1, 0, "trainer", 0.0)]
    facts = replace(facts, operations=list(operations), loaders=[source], processes=processes)
    return Diagnosis(
        profile=facts, loop=loop_of(steps), source=None, loader=source, steps=[row] * steps,
        inputs=made, host=HostLoad(cores=cores, job_cores=1.0, foreign_cores=0.0), scenario=scene,
        step_s=step_s, wait_s=wait,
        model_error=0.05, metrics={"data_wait_fraction": data_wait([row])}, budget=[],
        quality=Quality(steps, 10, 0.02, Overhead(None, None, None)),
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


def accelerated(
    beat: DeviceStepBreakdown | None,
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
    cost = device_cost(beat or DeviceStepBreakdown(0, 0.0, 0.0))
    cost = cost if beat is not None else replace(cost, idle=0.02)
    batch = work or BatchCost(1e-3)
    ahead = runs_ahead(view, wait_s)
    scene = Scenario((batch,), (cost,), workers=2, cores=4.0, ahead=ahead)
    base = patient(batch, cost, workers=2, cores=4.0, scenario=scene, loader=loader)
    host = HostLoad(
        4.0, job_cores=1.0, foreign_cores=0.0, accelerated=True, device_busy=view.driver.kernel_share
    )
    trust = Trust(400, 400 * step_seconds(scene), 0.05, 100)
    verdict, causes = decide(scene, base.inputs, base.loader, host, trust, device=view)
    trainer = [replace(base.profile.processes[0], device="cuda")]
    profile = replace(base.profile, processes=trainer, device=view.facts)
    return replace(base, profile=profile, host=host, device=view, verdict=verdict, causes=causes)


def kernels(kind: str, share: float, precision: str = "", median_s: float = 1e-4) -> Kernels:
    """Simulated kernels that take this share of a step of 20 ms."""
    return Kernels(kind, share * 0.02, 100.0, median_s, precision)


# Simulated steps, in seconds: what the device's clock would say of each.
SATURATED = DeviceStepBreakdown(400, 0.02, 0.0195, launch_s=0.0005, host_s=0.008)
STARVED = DeviceStepBreakdown(400, 0.02, 0.004, input_s=0.0155, launch_s=0.0005, host_s=0.003)
LAUNCHING = DeviceStepBreakdown(400, 0.02, 0.006, launch_s=0.014, host_s=0.02)
SYNCING = DeviceStepBreakdown(400, 0.02, 0.013, launch_s=0.001, sync_s=0.006, host_s=0.012)
COPYING = DeviceStepBreakdown(400, 0.02, 0.011, transfer_s=0.009, host_s=0.006)
