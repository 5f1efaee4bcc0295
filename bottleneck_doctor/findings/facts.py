"""What findings read of a run: its own rows, waits for data, the model's computation, the accelerator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from ..analyse.loop_cpu import anatomy_of
from ..analyse.predict import gain
from ..analyse.shares import ALL_BUT_NOISE, MOST, NOTICED
from ..analyse.steps import seconds_in, share_in, steps_in
from ..model.code import Location
from ..model.device import DeviceView, DeviceWindow
from ..model.diagnosis import Change, Diagnosis, Inputs, Proposal, Scenario
from ..model.instruments import Operation, Operator, Series
from ..model.loops import HotFiles, Payload, Repeats
from ..model.profile import CompilerNote, DispatchBreakdown, Optimizer, ScriptSettings
from ..model.report import Evidence
from ..model.run import ENVIRONMENT, Treatment
from ..source.files import is_users
from .registry import given

TASK_IO = "io counters of the task"


def place_of(diagnosis: Diagnosis) -> Location | None:
    """Where the user defines the data set, else where its loader is built; a line of a library only where
    neither is in the user's code."""
    loader = diagnosis.loader
    if loader is None:
        return None
    known = [one for one in (loader.dataset_location, loader.location) if one is not None]
    return next((one for one in known if is_users(one.file)), known[-1] if known else None)


def place(file: str, line: int) -> Location | None:
    """A line of the user's code, where one is known."""
    return Location(file, line) if file else None


def one_epoch(diagnosis: Diagnosis) -> bool:
    """Whether the run had one epoch, and ended by itself without an error: nothing pays off in later ones."""
    loop, run = diagnosis.loop, diagnosis.profile.run
    ended = run.stopped_by is None and run.exit_status == 0
    return loop is not None and len(loop.epochs.batches) == 1 and ended


def in_advance(diagnosis: Diagnosis, remedy: Proposal) -> Proposal:
    """The remedy; one that converts the data costs an epoch's work, and is only bounded where that is all."""
    if remedy.apply != "convert" or not one_epoch(diagnosis):
        return remedy
    return replace(remedy, basis="bound", risk=f"pays from the second epoch on; {remedy.risk}")


def key_of(diagnosis: Diagnosis) -> str:
    """The key of the training loader in the profile; "" if there is none."""
    return diagnosis.loader.key if diagnosis.loader is not None else ""


def hot_files_of(diagnosis: Diagnosis) -> HotFiles | None:
    """The files from which the training loader's batches come, where some were seen."""
    key = key_of(diagnosis)
    return next((one for one in diagnosis.profile.hot_files if key and one.loader == key), None)


def payload_of(diagnosis: Diagnosis) -> Payload | None:
    """What a batch of the training loader is made of, when batches were looked into."""
    key = key_of(diagnosis)
    return next((one for one in diagnosis.profile.payloads if one.loader == key and one.batches), None)


def repeats_of(diagnosis: Diagnosis) -> Repeats | None:
    """Whether the training loader's samples come out the same again, when some were followed."""
    return next((one for one in diagnosis.profile.repeats if one.loader == key_of(diagnosis)), None)


def comes_again(diagnosis: Diagnosis) -> bool:
    """Whether samples that were seen again came out the same: what makes them has no random part."""
    repeats = repeats_of(diagnosis)
    return repeats is not None and repeats.compared > 0 and repeats.equal >= ALL_BUT_NOISE * repeats.compared


def step_share(diagnosis: Diagnosis, part: str) -> float:
    """The share of the steady step that one of its parts takes, by the name of its field."""
    return share_in(diagnosis.steps, part)


def operations_of(diagnosis: Diagnosis, kind: str) -> list[Operation]:
    """Calls of one kind in the training loop's own thread, the costliest line first."""
    loop = diagnosis.loop
    calls = diagnosis.profile.operations
    mine = [one for one in calls if loop and (one.pid, one.thread) == (loop.pid, loop.thread)]
    return sorted((one for one in mine if one.kind == kind), key=lambda one: -one.total_s)


def readings(series: Series, name: str) -> list[tuple[float, float]]:
    """(instant, value) wherever the value was read."""
    return [(t, v) for t, v in zip(series.t, series.values.get(name, []), strict=False) if v is not None]


HOOK = "hook on the loader's next"
BOOKS = "thread CPU clock, schedstat"
WAIT_SHARE = 0.05  # of the step [TensorBoard plugin of the PyTorch profiler]
PAYS = 1.05  # step time over the step time without the cause [contract: what limits anything]
LOCK_SHARE = 0.2  # of the waits, from which workers are taken to wait for each other (chosen)
FOREIGN_CORES = 0.5  # used by other processes, from which these are taken to delay the job (chosen)
LOOKS_AT_LEAST = 5  # samples of sleeping threads, or kinds of wait are not separated [analyse/inputs.py]


def data_wait_evidence(diagnosis: Diagnosis) -> Evidence:
    """The report's metric of the data wait, as evidence."""
    known = diagnosis.metrics["data_wait_fraction"]
    text = "share of the step that the loop waits for data"
    return Evidence(text, "data_wait_fraction", known.value, known.source)


def wait_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """How long the loop waits, and what a batch's time is spent on."""
    inputs = diagnosis.inputs
    stored = "writes to storage" if inputs.written else "reads from storage"
    parts = (
        ("CPU time to make a batch", "fetch_cpu_s", inputs.cpu, BOOKS),
        ("time per batch waiting for a core", "fetch_queue_s", inputs.queue, "schedstat"),
        (f"time per batch asleep in {stored}", "fetch_storage_s", inputs.storage, "wait channels"),
        ("time per batch waiting for the network", "fetch_network_s", inputs.network, "wait channels"),
        ("time per batch asleep on something else", "fetch_wait_s", inputs.wait, "wait channels"),
    )
    whole = max(inputs.wall, 1e-12)
    return [data_wait_evidence(diagnosis), *(Evidence(*one) for one in parts if one[2] > 0.05 * whole)]


def starved(diagnosis: Diagnosis, cause: str, seconds: float) -> bool:
    """Whether removing ``cause`` gains 5 % and it is the verdict's cause, or takes most of a batch's cost
    (``seconds`` of it) while the loop waits for data or for cores that workers use."""
    pays = diagnosis.causes.get(cause, 1.0) >= PAYS
    most = seconds >= MOST * making_s(diagnosis.inputs)
    return pays and (diagnosis.verdict.cause == cause or (held_up(diagnosis) and most))


def making_s(inputs: Inputs) -> float:
    """Seconds to make a batch, without waits for a core."""
    return max(inputs.cpu + inputs.storage + inputs.network + inputs.wait, 1e-12)


def held_up(diagnosis: Diagnosis) -> bool:
    """Whether the loop waits for data, or for cores that making batches uses."""
    return waits(diagnosis) or diagnosis.verdict.cause in ("input.preprocess", "input.oversubscribed")


def waits(diagnosis: Diagnosis) -> bool:
    """Whether the loop waits for data for at least 5 % of the step."""
    return diagnosis.wait_s >= WAIT_SHARE * diagnosis.step_s


def dearest(diagnosis: Diagnosis, causes: tuple[str, ...]) -> str:
    """Which of these causes would gain most if it were removed; the first where nothing is known."""
    return max(causes, key=lambda cause: diagnosis.causes.get(cause, 0.0))


def takes_turns(diagnosis: Diagnosis) -> bool:
    """Whether workers wait for each other's locks, so that more workers gain nothing."""
    workers = diagnosis.loader.num_workers if diagnosis.loader is not None else 0
    waited, locked = diagnosis.inputs.wait, diagnosis.inputs.waits.get("lock", 0.0)
    return workers > 1 and waited > 0 and locked / waited >= LOCK_SHARE


PROFILER = "torch.profiler window"
MOST_SPARED = 0.95  # of the loop's own work, at most: nothing vanishes (chosen)
SETTINGS = "read when the training began to move"


def anatomy(diagnosis: Diagnosis) -> DispatchBreakdown | None:
    """The profiled step of the loop's process."""
    return anatomy_of(diagnosis.profile, diagnosis.loop)


def switches(diagnosis: Diagnosis) -> ScriptSettings | None:
    """The switches and settings of the loop's process."""
    known = diagnosis.profile.computing.switches
    return next((one for one in known if diagnosis.loop and one.pid == diagnosis.loop.pid), None)


def optimizers(diagnosis: Diagnosis) -> list[Optimizer]:
    """The optimizers of the loop's process, the largest first."""
    known = diagnosis.profile.computing.optimizers
    mine = [one for one in known if diagnosis.loop and one.pid == diagnosis.loop.pid]
    return sorted(mine, key=lambda one: -one.elements)


def threads_set_to(count: int) -> tuple[Treatment, ...]:
    """The environment reaches every library's pool; what the script sets itself, only the agent reaches."""
    return Treatment(ENVIRONMENT, {"OMP_NUM_THREADS": count}), Treatment("threads", {"count": count})


SUMS = ("calls", "self_cpu_s", "self_device_s")  # of operators, over the ranks that were profiled


def operators(diagnosis: Diagnosis, wanted: Callable[[str], bool]) -> list[Operator]:
    """The profiled operators with such names, ``aten::`` taken off; of several ranks, a mean rank's."""
    found = [one for one in diagnosis.profile.operators if wanted(one.name.rpartition("::")[2])]
    profile = diagnosis.profile
    traced = [one for one in (profile.device, *profile.other_devices) if one is not None and one.window]
    ranks = max(1, len(traced if diagnosis.host.accelerated else profile.computing.anatomies))
    return [replace(one, **{name: getattr(one, name) / ranks for name in SUMS}) for one in found]


def computing_s(diagnosis: Diagnosis, some: list[Operator]) -> float:
    """Seconds of these operators per step: of an accelerator's kernels, where the model computes on one."""
    accelerated = diagnosis.host.accelerated
    return sum(one.self_device_s if accelerated else one.self_cpu_s for one in some)


def share_of(diagnosis: Diagnosis, wanted: Callable[[str], bool]) -> float:
    """The share of the profiled operators' time in those with such names; on an accelerator, of kernels'."""
    known = diagnosis.profile.computing.anatomies
    total = fmean(one.own_s for one in known) if known else 0.0
    if (view := device_of(diagnosis)) is not None:
        total = sum(one.device_s for one in view.facts.kernels or [])
    return min(1.0, computing_s(diagnosis, operators(diagnosis, wanted)) / total) if total > 0 else 0.0


def is_product(name: str) -> bool:
    """Matrix products and convolutions, forward and backward."""
    return name in ("mm", "addmm", "bmm", "baddbmm", "_mkldnn_linear", "mkldnn_linear") or "conv" in name


def own_s(scenario: Scenario) -> float:
    """Seconds per step that the loop computes and calls operators."""
    return fmean(cost.compute + cost.launch for cost in scenario.costs)


def optimizer_s(diagnosis: Diagnosis, scenario: Scenario) -> float:
    """Seconds per step in the optimizer. On the CPU those of its core: its wall time, less its part of the
    time without a core."""
    if diagnosis.host.accelerated:
        return device_part_s(diagnosis, "optimizer_s")
    steps = [step for step in diagnosis.steps if step.cpu is not None]
    wall = seconds_in(steps, "optimizer")
    cpu, count = seconds_in(steps, "cpu"), steps_in(steps)
    wanted = cpu + seconds_in(steps, "held")
    return min(own_s(scenario), wall / count * cpu / wanted) if count and cpu > 0 else 0.0


def device_of(diagnosis: Diagnosis) -> DeviceView | None:
    """The accelerator on which the model computes; None on the CPU."""
    return diagnosis.device if diagnosis.host.accelerated else None


def device_part_s(diagnosis: Diagnosis, part: str) -> float:
    """Seconds per step in a part of it by the device's clock: ``backward_s`` or ``optimizer_s``."""
    view = device_of(diagnosis)
    return float(getattr(view.clock, part)) if view is not None and view.clock is not None else 0.0


def optimizer_share(diagnosis: Diagnosis) -> float:
    """The optimizer's share of the step: on an accelerator by its clock, since the loop only queues it."""
    if diagnosis.host.accelerated:
        return device_part_s(diagnosis, "optimizer_s") / max(diagnosis.step_s, 1e-12)
    return step_share(diagnosis, "optimizer")


def updates_singly(one: Optimizer) -> bool:
    """Whether it updates one tensor after the other."""
    return one.library == "torch" and not one.closure and not one.fused and not one.foreach


def updates_slowly(diagnosis: Diagnosis, one: Optimizer) -> bool:
    """Whether one fused call would do less: it updates singly, on a device in kernels that were seen, or its
    kernels go through the weights several times and take long."""
    view = device_of(diagnosis)
    if view is None or not view.facts.kernels:
        return updates_singly(one)
    mine = [kernel for kernel in view.facts.kernels if kernel.kind == "optimizer"]
    if updates_singly(one):
        return sum(kernel.calls for kernel in mine) >= one.tensors
    unfused = one.library == "torch" and not one.closure and not one.fused
    return unfused and sum(kernel.device_s for kernel in mine) >= NOTICED * diagnosis.step_s


def loops_over_tensors(diagnosis: Diagnosis) -> bool:
    """Whether most of the step is an optimizer that updates one tensor after the other."""
    looping = any(updates_singly(one) and updates_slowly(diagnosis, one) for one in optimizers(diagnosis))
    return looping and optimizer_share(diagnosis) >= MOST


def spared(scenario: Scenario, seconds: float) -> Change:
    """The change that saves this many seconds per step of the loop's computing and calling."""
    left = 1 - min(MOST_SPARED, max(0.0, seconds) / max(own_s(scenario), 1e-12))
    return Change(compute=left, launch=left)


def lighter(diagnosis: Diagnosis, seconds: float, launches: bool = True) -> Change:
    """The change that saves this many seconds per step of what the model computes, by the clock of what
    computes it. On an accelerator these end for its kernels, and for the loop that ``launches`` them."""
    view = device_of(diagnosis)
    if view is None:
        return spared(given(diagnosis.scenario), seconds)
    clock = view.clock or beat_of(diagnosis)
    whole = clock.wall_s - clock.input_s - clock.transfer_s - clock.other_s
    left = 1 - min(MOST_SPARED, max(0.0, seconds) / max(whole, 1e-12))
    return Change(device=left, launch=left if launches else 1.0)


def computing_share(scenario: Scenario) -> float:
    """The share of the step that would be gone if the model computed in no time."""
    return 1 - 1 / gain(scenario, Change(compute=0, device=0))


def computing_cause(diagnosis: Diagnosis) -> str:
    """The cause to which findings about the model's computing belong, by what computes it. Where a device
    waits for the loop to launch it, less of it is fewer launches."""
    if not diagnosis.host.accelerated:
        return "model.compute"
    return "host.launch" if diagnosis.verdict.cause == "host.launch" else "device.compute"


def built_at(optimizer: Optimizer) -> Location | None:
    """The line that built the optimizer."""
    return place(optimizer.file, optimizer.line)


CLOCK = "the accelerator's own clock"
DRIVER = "GPU counters, while busy"
CALLS = "hooks on copies and waits, in sampled steps"
ACTIVE = "torch.profiler window, or NVML's performance monitors"
ALLOCATOR = "torch.cuda.memory_stats"
TENSOR_KINDS = ("matmul", "convolution", "attention")  # kernels that tensor cores can do
BANDWIDTH_KINDS = ("elementwise", "reduction")  # kernels that wait for the device's memory


def beat_of(diagnosis: Diagnosis) -> DeviceWindow:
    """The device's mean step, for findings that need ``device_step``."""
    return given(given(diagnosis.device).beat)


def of_step(diagnosis: Diagnosis, seconds: float) -> float:
    """Seconds of the device's mean step as a share of it."""
    return seconds / max(beat_of(diagnosis).wall_s, 1e-12)


def kernel_share(view: DeviceView, kinds: tuple[str, ...], precision: str = "") -> float:
    """The share of all kernels' device time that kernels of these kinds (in one precision) take."""
    kernels = view.facts.kernels or []
    whole = sum(one.device_s for one in kernels)
    mine = [one for one in kernels if one.kind in kinds and precision in ("", one.precision)]
    return sum(one.device_s for one in mine) / whole if whole > 0 else 0.0


def peak_share(view: DeviceView) -> float | None:
    """The allocator's peak over the device's memory."""
    whole = view.facts.memory_bytes or view.driver.memory_bytes
    allocator = view.facts.allocator
    return allocator.peak_bytes / whole if allocator is not None and allocator.peak_bytes and whole else None


class Instead(NamedTuple):
    """What to write instead where torch.compile gives a reason that ``pattern`` matches."""

    pattern: str
    text: str
    snippet: str


WITHIN = "keep it out of the compiled function"
# In the words of torch 2.4 to 2.13; the last matches all others.
BREAKS = (
    Instead(r"(?i)\.item\(|tolist|scalar", WITHIN + ": read values back after the step",
           "LOSSES.append(LOSS.detach())  # a tensor, in the compiled code\n"
           "torch.stack(LOSSES).mean().item()  # outside of it, now and then"),
    Instead(r"(?i)data.dependent (branch|jump|control)|generic_jump", "choose by a tensor, without a branch",
           "y = torch.where(MASK, A, B)  # in place of: if MASK.any()"),
    Instead(r"(?i)dynamic shape operator|nonzero|masked_select|unique", "keep shapes that no value decides",
           "y = torch.where(MASK, X, 0)  # in place of X[MASK]"),
    Instead(r"(?i)print|logging|logger|warnings", WITHIN,
           "print(LOSS)  # after the compiled call has returned"),
    Instead(r"", "where it breaks, as torch says",
           "TORCH_LOGS=graph_breaks python train.py  # names each break"),
)  # fmt: skip
GUARDS = (
    Instead(r"(?i)size mismatch|shape|size\(\)|\bNe\(|\bEq\(|Mod\(", "where the model is compiled", ""),
    Instead(r"(?i)stride", "hand it one layout of memory", "y = MODEL(X.contiguous())"),
    Instead(r"(?i)dtype|DispatchKey|device", "hand it one type, from one device",
           "y = MODEL(X.to(DEVICE, torch.float32))"),
    Instead(r"(?i)grad_mode|requires_grad|autocast|inference", "call it in one mode in training",
           "with torch.no_grad():  # evaluation, not compiled\n    y = PLAIN_MODEL(X)"),
    Instead(r"(?i)backend", "compile once, before the loop",
           "MODEL = torch.compile(MODEL)  # not within the loop"),
    Instead(r"", "hand over what changes as a tensor",
           "y = MODEL(X, torch.tensor(STEP))  # not a Python number that changes"),
)  # fmt: skip


def advised(table: tuple[Instead, ...], reason: str) -> Instead:
    """The advice for a reason."""
    return next(one for one in table if re.search(one.pattern, reason))


NOTES_AT_MOST = 3  # of a kind, in a report


def compiler_notes(diagnosis: Diagnosis, what: str) -> list[CompilerNote]:
    """What torch.compile noted in the loop's process, the most frequent first."""
    known = diagnosis.profile.computing.compiler_notes
    mine = [one for one in known if one.what == what and diagnosis.loop and one.pid == diagnosis.loop.pid]
    return mine[:NOTES_AT_MOST]


def noted(one: CompilerNote) -> Evidence:
    """A note as evidence: what, why and where."""
    at = f" at {one.location.file}:{one.location.line}" if one.location is not None else ""
    text = f"{one.what}s{at} ({one.reason})"
    return Evidence(text, one.what.replace(" ", "_") + "s", float(one.count), "torch._dynamo")
