"""How an accelerator is kept busy: kernel launches, batch size, synchronisation."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from ..analyse.causes import gain
from ..analyse.device import runs_ahead
from ..analyse.shares import MOST
from ..model.device import DeviceSync, Kernels
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import (
    ACTIVE,
    ALLOCATOR,
    BANDWIDTH_KINDS,
    CALLS,
    CLOCK,
    WINDOW,
    beat_of,
    kernel_share,
    of_step,
    peak_share,
    place,
    saving,
)
from .parts.entry import Entry, device_step, given, spread
from .parts.rewriting import loader_call

# launch-bound
# of the step, above which the device is not waiting to speak of (chosen; NVIDIA's advice for CUDA graphs:
# 0.8)
BUSY_SHARE = 0.7
LAUNCH_IDLE_SHARE = 0.1  # of the step idle while the loop issues work (chosen)
SHORT_S = 5e-5  # median kernel (NVIDIA's advice for CUDA graphs)
COMPILED = (1.0, 0.7, 0.5)  # of the host's time to issue a step (PyTorch's documentation: 30 % to 2x)
GRAPHED = (1 / 1.2, 1 / 1.8, 1 / 3)  # (NVIDIA's guide to CUDA graphs in PyTorch; the middle is chosen)
CROWDED_CORES = 0.5  # used by other processes, above which launches may wait for a core (chosen)
COMPILE_MODEL = Proposal(
    id="torch-compile",
    title="compile the model: fewer, larger kernels",
    fix=Fix("compile in place; keys of the state dict stay", "model.compile()"),
    apply="hook~",
    risk="minutes of compilation; sums in another order; inputs of many shapes compile anew",
    basis="bound",
    treatments=(Treatment("compiled"),),
)
GRAPHS = Proposal(
    id="cuda-graphs",
    title="record the step once and replay it with one launch",
    fix=Fix(
        "let the compiler record graphs, or use torch.cuda.make_graphed_callables",
        'model.compile(mode="reduce-overhead")',
    ),
    effort="hours",
    risk="fixed shapes, no readbacks inside; memory of a graph is not given back",
    basis="bound",
)


def launch_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the device idles because short kernels are issued too slowly."""
    view, scenario, beat = given(diagnosis.device), given(diagnosis.scenario), beat_of(diagnosis)
    waiting = of_step(diagnosis, beat.launch_s)
    if waiting < LAUNCH_IDLE_SHARE or of_step(diagnosis, beat.busy_s) >= BUSY_SHARE:
        return None
    if not view.facts.kernels:
        return Abstention("launch-bound", "the length of kernels")
    median = median_s(view.facts.kernels)
    if median >= SHORT_S:
        return None
    count = sum(one.calls for one in view.facts.kernels)
    foreign = diagnosis.host.foreign_cores or 0.0
    evidence = [
        Evidence("share of the step in which the device waits to be given work", "device_launch_share",
                 waiting, CLOCK),
        Evidence("share of the step in which it is busy", "gpu_busy_fraction",
                 of_step(diagnosis, beat.busy_s), CLOCK),
        Evidence("time that the loop needs to issue a step", "host_issue_s", beat.host_s, WINDOW),
        Evidence("kernels per step", "kernels", count, WINDOW),
        Evidence("length of the median kernel", "median_kernel_s", median, WINDOW),
        *([Evidence("cores that others used", "foreign_cores", foreign, "/proc/stat less the process tree")]
          if foreign >= CROWDED_CORES else []),
    ]  # fmt: skip
    ways = [(COMPILE_MODEL, COMPILED), (GRAPHS, GRAPHED)]
    if view.facts.switches is not None and view.facts.switches.compiled:
        ways = ways[1:]
    most = gain(scenario, Change(launch=0.0))
    proposals = [
        replace(remedy, factor=spread(scenario, *(Change(launch=one) for one in left)), most=most)
        for remedy, left in ways
    ]
    return Finding("launch-bound", "host.launch", evidence, proposals)


def median_s(kernels: list[Kernels]) -> float:
    """The median kernel's length, each kind standing at its own median."""
    half, seen = sum(one.calls for one in kernels) / 2, 0.0
    for one in sorted(kernels, key=lambda one: one.median_s):
        seen += one.calls
        if seen >= half:
            return one.median_s
    return 0.0


# pointwise-unfused
POINTWISE_SHARE = 0.3  # of the kernels' time (chosen)
LONG_S = 2e-5  # median kernel (chosen)
FUSED_TIMES = (1.0, 2.0, 4.0)  # as fast by fusing two to four operators (chosen)
READY_MADE = 0.5  # of these kernels that a fused module exists for (chosen)
COMPILE_CHAINS = replace(
    COMPILE_MODEL,
    title="compile the model: chains of operators become one kernel",
    fix=Fix("the whole model, or its hottest block", "model.compile()      # or model.layers[0].compile()"),
)
FUSED_MODULES = Proposal(
    id="fused-modules",
    title="use operators that come fused",
    fix=Fix(
        "for norms, attention and the optimizer",
        "F.scaled_dot_product_attention(q, k, v)      # instead of matmul, softmax, dropout, matmul\n"
        "nn.LayerNorm(width); torch.optim.AdamW(parameters, fused=True)",
    ),
    effort="hours",
    risk="results differ in the last digits",
    basis="bound",
)


def pointwise_unfused(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when long elementwise kernels take much of the device's time and nothing fuses them."""
    view, scenario = given(diagnosis.device), given(diagnosis.scenario)
    if not view.facts.kernels:
        return Abstention("pointwise-unfused", "kernels by kind")
    share = kernel_share(view, BANDWIDTH_KINDS)
    longest = max((one.median_s for one in view.facts.kernels if one.kind in BANDWIDTH_KINDS), default=0.0)
    if share < POINTWISE_SHARE or longest < LONG_S:
        return None
    if view.facts.switches is None or view.facts.switches.compiled is None:
        return Abstention("pointwise-unfused", "whether the model is compiled")
    if view.facts.switches.compiled:
        return None
    evidence = [
        Evidence("share of the kernels' time in elementwise kernels and reductions", "pointwise_share", share,
                 WINDOW),
        Evidence("length of the median one", "median_kernel_s", longest, WINDOW),
        Evidence("share of the step in which the device is busy", "gpu_busy_fraction",
                 of_step(diagnosis, beat_of(diagnosis).busy_s), CLOCK),
    ]  # fmt: skip
    most = gain(scenario, Change(device=1 - share))
    proposals = [
        replace(
            remedy,
            factor=spread(scenario, *(Change(device=saving(part, times)) for times in FUSED_TIMES)),
            most=most,
        )
        for remedy, part in ((COMPILE_CHAINS, share), (FUSED_MODULES, READY_MADE * share))
    ]
    return Finding("pointwise-unfused", "device.compute", evidence, proposals)


# batch-too-small
PEAK_SHARE = 0.7  # of the device's memory [SageMaker Debugger, batch size]
FULL = 0.9  # of it that a larger batch may take [PyTorch Profiler's TensorBoard plugin]
BATCH_IDLE_SHARE = 0.1  # of the step idle for the loop, or for anything else (chosen)
TIMES_AT_MOST = 8  # larger: beyond, the learning rate is another question (chosen)
LARGER = Proposal(
    id="bigger-batch",
    title="use larger batches",
    fix=Fix("then scale the learning rate and validate again", "DataLoader(..., batch_size=128)"),
    basis="bound",
    effort="hours",
    risk="another training: learning rate, schedule and generalisation change; the gain is per sample",
)


def batch_too_small(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when fixed costs dominate and memory has room for at least twice the batch."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if _otherwise_held_up(diagnosis):
        return None
    filled = view.facts.sm_active_share
    launching = of_step(diagnosis, beat_of(diagnosis).launch_s)
    sparse = filled is not None and filled < MOST
    if not sparse and launching < BATCH_IDLE_SHARE:
        return (
            None
            if filled is not None
            else Abstention("batch-too-small", "the share of multiprocessors with work")
        )
    peak = peak_share(view)
    if peak is None:
        return Abstention("batch-too-small", "the peak of the device's memory")
    times = _times(peak)
    if peak >= PEAK_SHARE or times < 2:
        return None
    evidence = [
        Evidence("peak of the device's memory", "device_peak_share", peak, ALLOCATOR),
        Evidence(
            "share of the step in which the device waits to be given work",
            "device_launch_share",
            launching,
            CLOCK,
        ),
        *(
            [Evidence("share of multiprocessors with work while busy", "sm_active_share", filled, ACTIVE)]
            if filled is not None
            else []
        ),
    ]
    proposal = _larger(diagnosis, scenario, times, filled if sparse and filled else 1.0)
    return Finding("batch-too-small", "device.underfilled" if sparse else "host.launch", evidence, [proposal])


def _times(peak: float) -> int:
    """The largest power of two by which the peak may grow, within bounds."""
    times = 1
    while 2 * times * peak <= FULL and times < TIMES_AT_MOST:
        times *= 2
    return times


def _otherwise_held_up(diagnosis: Diagnosis) -> bool:
    beat = beat_of(diagnosis)
    waits = beat.input_s + beat.sync_s + beat.transfer_s + beat.memory_s + beat.collective_s
    return of_step(diagnosis, waits) >= BATCH_IDLE_SHARE


def _larger(diagnosis: Diagnosis, scenario: Scenario, times: int, filled: float) -> Proposal:
    """Per sample: what is paid once per batch is paid once for that many times as many samples."""
    fixed, loader = 1 / times, diagnosis.loader
    likely, best = max(fixed, sqrt(filled)), max(fixed, filled)
    factor = spread(scenario, Change(launch=(1 + fixed) / 2), Change(launch=fixed, device=likely),
                    Change(launch=fixed, device=best))  # fmt: skip
    most = gain(scenario, Change(launch=fixed, device=best))
    larger = replace(LARGER, factor=factor, most=most)
    if loader is not None and loader.batch_size:
        return larger.at(loader.location, loader_call(loader, batch_size=times * loader.batch_size))
    fix = replace(LARGER.fix, snippet="", location=loader.location if loader else None)
    return replace(larger, title=f"{LARGER.title} ({times} times the size)", fix=fix)


# cudnn-autotune-off
CONVOLUTION_SHARE = 0.3  # of the kernels' time (chosen)
FEW_SHAPES = 3.0  # per hundred steps (chosen)
MANY_SHAPES = 5.0  # new ones per hundred steps (chosen)
TUNED = (1.0, 0.9, 0.8)  # of the convolutions' time left when the best are taken (chosen)
UNTUNED = (1.0, 0.8, 0.5)  # of it left when timing them ends (chosen)
TUNE = Proposal(
    id="cudnn-benchmark",
    title="time the convolutions' algorithms once and keep the fastest",
    fix=Fix("before training; shapes must stay the same", "torch.backends.cudnn.benchmark = True"),
    basis="bound",
    apply="hook~",
    risk="results may differ in the last digits from run to run; the first steps are slower",
    treatments=(Treatment("cudnn", {"benchmark": True}),),
)
STOP_TUNING = Proposal(
    id="cudnn-benchmark-off",
    title="stop timing convolutions for every new shape",
    fix=Fix(
        "inputs vary in size: leave the choice to the heuristic, or pad to a few sizes",
        "torch.backends.cudnn.benchmark = False",
    ),
    basis="bound",
    apply="hook~",
    risk="shapes that do come back lose their best algorithm",
    treatments=(Treatment("cudnn", {"benchmark": False}),),
)


def cudnn_autotune_off(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the cudnn.benchmark setting does not suit the variety of input shapes."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if not view.facts.kernels:
        return Abstention("cudnn-autotune-off", "kernels by kind")
    share = kernel_share(view, ("convolution",))
    if share < CONVOLUTION_SHARE:
        return None
    switches = view.facts.switches
    if switches is None or switches.cudnn_benchmark is None or switches.convolution_shapes is None:
        return Abstention(
            "cudnn-autotune-off", "torch.backends.cudnn.benchmark, and the shapes of convolutions"
        )
    shapes, tuned = switches.convolution_shapes, switches.cudnn_benchmark
    if shapes <= MANY_SHAPES if tuned else shapes > FEW_SHAPES:
        return None
    evidence = [
        Evidence("share of the kernels' time in convolutions", "convolution_share", share, WINDOW),
        Evidence("new shapes of convolutions per hundred steps", "convolution_shapes", shapes, WINDOW),
    ]
    remedy, lefts = (STOP_TUNING, UNTUNED) if tuned else (TUNE, TUNED)
    factor = spread(scenario, *(Change(device=1 - share * (1 - left)) for left in lefts))
    proposal = replace(remedy, factor=factor, most=gain(scenario, Change(device=1 - share)))
    return Finding("cudnn-autotune-off", "device.compute", evidence, [proposal])


# sync-points
SYNC_IDLE_SHARE = 0.03  # of the step idle after waits for the device (chosen)
INHERENT = ("grad_scaler.py",)  # files of torch whose one readback per step the algorithm needs
DEFER = Proposal(
    id="defer-readback",
    title="keep values on the device and read them back rarely",
    fix=Fix(
        "accumulate on the device; read every n steps",
        "running += loss.detach()                     # stays on the device\n"
        "if step % 50 == 0:                           # one wait in fifty steps\n"
        "    print(running.item() / 50); running.zero_()",
    ),
    effort="hours",
    risk="progress bars and early stopping see values later",
)


def sync_points(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the device idles after the loop had waited for it."""
    view = given(diagnosis.device)
    if of_step(diagnosis, beat_of(diagnosis).sync_s) < SYNC_IDLE_SHARE:
        return None
    if view.facts.syncs is None:
        return Abstention("sync-points", "the calls that wait for the device, by line")
    mine = [one for one in view.facts.syncs if not one.file.endswith(INHERENT)]
    idle = sum(one.idle_s for one in mine)
    if of_step(diagnosis, idle) < SYNC_IDLE_SHARE:
        return None
    mine.sort(key=lambda one: -one.idle_s)
    evidence = [
        Evidence("share of the step in which the device idles after synchronising calls", "device_sync_share",
                 of_step(diagnosis, idle), CLOCK),
        Evidence("synchronising calls per step", "syncs", sum(one.count for one in mine), CALLS),
        Evidence("time in these calls, mostly not removable", "sync_inside_s",
                 sum(one.inside_s for one in mine), CALLS),
        *(Evidence(f"idle after `{one.call}` at {one.file}:{one.line}", "device_sync_s", one.idle_s, CLOCK)
          for one in mine[:3] if one.file),
    ]  # fmt: skip
    where = place(mine[0].file, mine[0].line)
    proposal = replace(DEFER.at(where), change=_change(diagnosis, mine, idle))
    return Finding("sync-points", "host.sync", evidence, [proposal], where)


def _change(diagnosis: Diagnosis, mine: list[DeviceSync], idle: float) -> Change:
    """Without any waits the loop runs ahead; if some remain, only the idle time after ``mine`` goes. The
    loop's own work while the device idled stays: no step gets shorter than that."""
    view, beat = given(diagnosis.device), beat_of(diagnosis)
    others = len(mine) < len(view.facts.syncs or [])
    if others or not runs_ahead(view, diagnosis.wait_s, syncs=False):
        own_work = min(1.0, (beat.host_s - beat.busy_s) / beat.sync_s)
        return Change(lead_in=max(0.0, 1 - idle / beat.sync_s, own_work))
    return Change(ahead=1.0)


FINDINGS = (
    Entry("host.launch", launch_bound, device=True, needs=(device_step,), remedies=(COMPILE_MODEL, GRAPHS)),
    Entry(
        "device.compute",
        pointwise_unfused,
        device=True,
        needs=(device_step,),
        remedies=(COMPILE_CHAINS, FUSED_MODULES),
    ),
    Entry("device.underfilled", batch_too_small, device=True, needs=(device_step,), remedies=(LARGER,)),
    Entry(
        "device.compute", cudnn_autotune_off, device=True, needs=(device_step,), remedies=(TUNE, STOP_TUNING)
    ),
    Entry("host.sync", sync_points, device=True, needs=(device_step,), remedies=(DEFER,)),
)
