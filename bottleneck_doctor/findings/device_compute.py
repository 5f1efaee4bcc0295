"""How an accelerator is kept busy (launches, batch size, synchronisation); its clocks, links, other users."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log2, sqrt

from ..analyse.device import clock_loss, held_down, runs_ahead
from ..analyse.metrics import HELD
from ..analyse.predict import TRIFLE, is_clocked, scaled_device
from ..analyse.shares import ALL_BUT_NOISE, FEW_SAMPLES, LARGE_PART, MOST, NEARLY_ALL, NOTICED
from ..model.device import DeviceSync, Kernels
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import (
    ACTIVE,
    ALLOCATOR,
    BANDWIDTH_KINDS,
    BREAKS,
    CALLS,
    CLOCK,
    DRIVER,
    PROFILER,
    TENSOR_KINDS,
    advised,
    beat_of,
    compiler_notes,
    kernel_share,
    loops_over_tensors,
    noted,
    of_step,
    peak_share,
    place,
    switches,
)
from .registry import device_step, finding, given, snippet
from .remedies import COOL, LARGER, PARTLY, each, left_of, loader_call, priced

# launch-bound
BUSY_SHARE = 0.8  # of the step, above which the device hardly waits (NVIDIA's advice for CUDA graphs)
SHORT_S = 5e-5  # median kernel (NVIDIA's advice for CUDA graphs)
COMPILED = (1.0, 0.7, 0.5)  # of the host's time to issue a step (PyTorch's documentation: 30 % to 2x)
GRAPHED = (1 / 1.2, 1 / 1.9, 1 / 3)  # (NVIDIA's guide to CUDA graphs in PyTorch: 1.2 to 3 times as fast)
COMPILE_MODEL = Proposal(
    id="torch-compile",
    title="compile the model: fewer, larger kernels",
    fix=Fix("compile in place; keys of the state dict stay", "MODEL.compile()"),
    apply="hook~",
    risk="minutes of compilation; sums in another order; inputs of many shapes compile anew",
    basis="bound",
    treatments=(Treatment("compiled"),),
)
GRAPHS = Proposal(
    id="cuda-graphs",
    title="replay the step as a CUDA graph",
    fix=Fix("or use torch.cuda.make_graphed_callables", 'MODEL.compile(mode="reduce-overhead")'),
    effort="hours",
    risk="fixed shapes, no readbacks inside; memory of a graph is not given back",
    basis="bound",
)


WHOLE = Proposal(
    id="whole-graph",
    title="let the compiled model be one graph",
    fix=Fix("where it breaks", BREAKS[-1].snippet),
    effort="hours",
    risk="a graph that is broken at one line often breaks at the next",
    basis="bound",
)


@finding("host.launch", COMPILE_MODEL, WHOLE, GRAPHS, needs=(device_step,), device=True)
def launch_bound(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the device idles because short kernels are issued too slowly."""
    view, scenario, beat = given(diagnosis.device), given(diagnosis.scenario), beat_of(diagnosis)
    waiting, busy = of_step(diagnosis, beat.launch_s), of_step(diagnosis, beat.busy_s)
    if waiting < NOTICED or busy >= BUSY_SHARE or loops_over_tensors(diagnosis):
        return None
    if not view.facts.kernels:
        return "the length of kernels"
    median, count = median_s(view.facts.kernels), sum(one.calls for one in view.facts.kernels)
    if median >= SHORT_S:
        return None
    foreign = diagnosis.host.foreign_cores
    text = "share of the step in which the device waits for work"
    evidence = [
        Evidence(text, "device_launch_share", waiting, CLOCK),
        Evidence("share of the step in which it is busy", "gpu_busy_fraction", busy, CLOCK),
        Evidence("time that the loop needs to issue a step", "host_issue_s", beat.host_s, PROFILER),
        Evidence("kernels per step", "kernels", count, PROFILER),
        Evidence("length of the median kernel", "median_kernel_s", median, PROFILER),
    ]
    if foreign is not None:
        evidence.append(Evidence("cores that others used", "foreign_cores", foreign, "/proc/stat"))
    compiled = view.facts.switches is not None and view.facts.switches.compiled
    ways = [] if compiled else [(COMPILE_MODEL, COMPILED)]
    if not compiler_notes(diagnosis, "recompilation"):  # else shapes change, and a graph has fixed ones
        ways.append((GRAPHS, GRAPHED))
    if breaks := compiler_notes(diagnosis, "graph break") if compiled else []:
        evidence[1:1] = map(noted, breaks)
        advice = advised(BREAKS, breaks[0].reason)
        ways.append((WHOLE.at(breaks[0].location, advice.snippet, advice.text), COMPILED))
    proposals = [
        priced(remedy, scenario, *each(launch=left), most=Change(launch=0.0)) for remedy, left in ways
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
LONG_S = 2e-5  # mean kernel: far above the time to issue one (chosen)
COMPILE_CHAINS = replace(
    COMPILE_MODEL,
    title="compile the model: chains of operators become one kernel",
    fix=Fix("the whole model, or its hottest block", "MODEL.compile()  # or MODEL.layers[0].compile()"),
)
FUSED_MODULES = Proposal(
    id="fused-modules",
    title="use operators that come fused",
    fix=Fix(
        "for norms, attention and the optimizer",
        "# instead of matmul, softmax, dropout, matmul\n"
        "y = torch.nn.functional.scaled_dot_product_attention(Q, K, V)\n"
        "norm = torch.nn.LayerNorm(WIDTH)\n"
        "optimizer = torch.optim.AdamW(MODEL.parameters(), fused=True)",
    ),
    effort="hours",
    risk="results differ in the last digits",
    basis="bound",
)


@finding("device.compute", COMPILE_CHAINS, FUSED_MODULES, needs=(device_step,), device=True)
def pointwise_unfused(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when long elementwise kernels take much of the device's time and nothing fuses them."""
    view, scenario = given(diagnosis.device), given(diagnosis.scenario)
    if not view.facts.kernels:
        return "kernels by kind"
    share = kernel_share(view, BANDWIDTH_KINDS)
    chains = [one for one in view.facts.kernels if one.kind in BANDWIDTH_KINDS]
    mean_s = sum(one.device_s for one in chains) / max(1.0, sum(one.calls for one in chains))
    if share < LARGE_PART or mean_s < LONG_S:
        return None
    if view.facts.switches is None or view.facts.switches.compiled is None:
        return "whether the model is compiled"
    if view.facts.switches.compiled:
        return None
    busy = of_step(diagnosis, beat_of(diagnosis).busy_s)
    evidence = [
        Evidence("share of the kernels' time in elementwise kernels", "pointwise_share", share, PROFILER),
        Evidence("mean length of one", "mean_kernel_s", mean_s, PROFILER),
        Evidence("share of the step in which the device is busy", "gpu_busy_fraction", busy, CLOCK),
    ]
    most = Change(device=1 - share)
    proposals = [
        priced(remedy, scenario, *each(device=left_of(part, PARTLY)), most=most)
        for remedy, part in ((COMPILE_CHAINS, share), (FUSED_MODULES, share / 2))  # half of them: a guess
    ]
    return Finding("pointwise-unfused", "device.compute", evidence, proposals)


# batch-too-small
PEAK_SHARE = 0.7  # of the device's memory [SageMaker Debugger, batch size]
FULL = 0.9  # of it that a larger batch may take [PyTorch Profiler's TensorBoard plugin]
TIMES_AT_MOST = 8  # larger: beyond, the learning rate is another question (chosen)


@finding("device.underfilled", LARGER, needs=(device_step,), device=True)
def batch_too_small(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when fixed costs dominate and memory has room for at least twice the batch."""
    scenario, view, beat = given(diagnosis.scenario), given(diagnosis.device), beat_of(diagnosis)
    waits = beat.input_s + beat.sync_s + beat.transfer_s + beat.memory_s + beat.collective_s
    if of_step(diagnosis, waits) >= NOTICED or loops_over_tensors(diagnosis):
        return None
    filled, launching = view.facts.sm_active_share, of_step(diagnosis, beat.launch_s)
    sparse = filled is not None and filled < MOST
    if not sparse and launching < NOTICED:
        return None if filled is not None else "the share of multiprocessors with work"
    peak = peak_share(view)
    if peak is None:
        return "the peak of the device's memory"
    times = max(1, min(TIMES_AT_MOST, 2 ** floor(log2(max(1.0, FULL / peak)))))
    if peak >= PEAK_SHARE or times < 2:
        return None
    evidence = [
        Evidence("peak of the device's memory", "device_peak_share", peak, ALLOCATOR),
        Evidence("share of the step in which it waits for work", "device_launch_share", launching, CLOCK),
    ]
    if filled is not None:
        text = "share of multiprocessors with work while busy"
        evidence.append(Evidence(text, "sm_active_share", filled, ACTIVE))
    proposal = _larger(diagnosis, scenario, times, filled if sparse and filled else 1.0)
    return Finding("batch-too-small", "device.underfilled" if sparse else "host.launch", evidence, [proposal])


def _larger(diagnosis: Diagnosis, scenario: Scenario, times: int, filled: float) -> Proposal:
    """Per sample: what is paid once per batch is paid once for that many times as many samples."""
    fixed, loader = 1 / times, diagnosis.loader
    best = Change(launch=fixed, device=max(fixed, filled))
    likely = replace(best, device=max(fixed, sqrt(filled)))
    larger = priced(LARGER, scenario, Change(launch=(1 + fixed) / 2), likely, best, most=best)
    if loader is not None and loader.batch_size:
        return larger.at(loader.location, loader_call(loader, batch_size=times * loader.batch_size))
    fix = replace(LARGER.fix, snippet="", location=loader.location if loader else None)
    return replace(larger, title=f"{LARGER.title} ({times} times the size)", fix=fix)


# cudnn-autotune-off
SHAPES = 4.0  # new ones per hundred steps, up to which timing them all pays (chosen)
TUNED = (1.0, 0.8, 0.5)  # of the convolutions' time, with the setting that suits the shapes (chosen)
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
    fix=Fix("leave it to the heuristic, or pad to a few sizes", "torch.backends.cudnn.benchmark = False"),
    basis="bound",
    apply="hook~",
    risk="shapes that do come back lose their best algorithm",
    treatments=(Treatment("cudnn", {"benchmark": False}),),
)


@finding("device.compute", TUNE, STOP_TUNING, needs=(device_step,), device=True)
def cudnn_autotune_off(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the cudnn.benchmark setting does not suit the variety of input shapes."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if not view.facts.kernels:
        return "kernels by kind"
    share = kernel_share(view, ("convolution",))
    if share < LARGE_PART:
        return None
    switches = view.facts.switches
    if switches is None or switches.cudnn_benchmark is None or switches.convolution_shapes is None:
        return "torch.backends.cudnn.benchmark, and the shapes of convolutions"
    shapes, tuned = switches.convolution_shapes, switches.cudnn_benchmark
    if tuned == (shapes <= SHAPES):
        return None
    evidence = [
        Evidence("share of the kernels' time in convolutions", "convolution_share", share, PROFILER),
        Evidence("new shapes of convolutions per hundred steps", "convolution_shapes", shapes, PROFILER),
    ]
    changes, gone = each(device=left_of(share, TUNED)), Change(device=1 - share)
    proposal = priced(STOP_TUNING if tuned else TUNE, scenario, *changes, most=gone)
    return Finding("cudnn-autotune-off", "device.compute", evidence, [proposal])


# sync-points
INHERENT = ("grad_scaler.py",)  # files of torch whose one readback per step the algorithm needs
DEFER = Proposal(
    id="defer-readback",
    title="keep values on the device and read them back rarely",
    fix=Fix("accumulate on the device; read every n steps", snippet("device_compute", "SUMMED")),
    effort="hours",
    risk="progress bars and early stopping see values later",
)
RUN_AHEAD = replace(
    DEFER,
    title="do not wait for the device in each step",
    fix=Fix("events time kernels without it", "# delete: torch.cuda.synchronize()  # or torch.cuda.Event"),
    risk="values that a copy brings to the host must not be used before it has ended",
)


@finding("host.sync", DEFER, needs=(device_step,), device=True)
def sync_points(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the device idles after the loop had waited for it."""
    view = given(diagnosis.device)
    if of_step(diagnosis, beat_of(diagnosis).sync_s) < TRIFLE:
        return None
    if view.facts.syncs is None:
        return "the calls that wait for the device, by line"
    mine = [one for one in view.facts.syncs if not one.file.endswith(INHERENT)]
    known = switches(diagnosis)
    if known is not None and (known.anomaly or "anomaly" in known.noticed):
        mine = [one for one in mine if one.file]  # anomaly detection reads each gradient's check back
    idle = sum(one.idle_s for one in mine)
    share, count = of_step(diagnosis, idle), sum(one.count for one in mine)
    if share < TRIFLE:
        return None
    mine.sort(key=lambda one: -one.idle_s)
    inside_s = sum(one.inside_s for one in mine)
    text = "share of the step in which the device idles after waits"
    evidence = [
        Evidence(text, "device_sync_share", share, CLOCK),
        Evidence("synchronising calls per step", "syncs", count, CALLS),
        Evidence("time in these calls, mostly not removable", "sync_inside_s", inside_s, CALLS),
    ][: 3 if count else 1]  # only the trace saw others
    for one in [one for one in mine if one.file][:3]:
        text = f"idle after `{one.call}` at {one.file}:{one.line}"
        evidence.append(Evidence(text, "device_sync_s", one.idle_s, CLOCK))
    where = place(mine[0].file, mine[0].line)
    remedy = RUN_AHEAD if mine[0].call in ("synchronize", "stream", "event") else DEFER
    proposal = replace(remedy.at(where), change=_change(diagnosis, mine, idle))
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


# gpu-hw-degraded
RESEAT = Proposal(
    id="reseat-pcie",
    title="let the card use all lanes of its slot",
    fix=Fix(
        "compare under load; look at slot and riser",
        "nvidia-smi --query-gpu=pcie.link.width.current --format=csv",
    ),
    apply="admin",
    effort="days",
    risk="the machine must be opened",
)


@finding("device.throttled", COOL, RESEAT, device=True)
def gpu_hw_degraded(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when something other than idleness lowers clocks or link."""
    view, scenario = given(diagnosis.device), diagnosis.scenario
    driver = view.driver
    if scenario is None or driver.readings < FEW_SAMPLES or driver.clock_share is None:
        return f"{FEW_SAMPLES} readings of the GPU's clocks while the device was busy"
    clock, link = clock_loss(view), driver.link_share
    evidence, proposals = [], []
    slow = clock is not None and clock < NEARLY_ALL
    if slow:
        text = "clock of the multiprocessors while busy, of the highest"
        evidence.append(Evidence(text, "clock_share", driver.clock_share, DRIVER))
        for name, share in held_down(driver).items():
            text = f"share of busy readings that name {HELD[name]}"
            evidence.append(Evidence(text, f"{name}_share", share, DRIVER))
        computing = kernel_share(view, TENSOR_KINDS) if view.facts.kernels else MOST
        lefts = (1.0, 1 - computing * (1 - driver.clock_share), driver.clock_share)
        changes = (scaled_device(scenario, diagnosis.host, left) for left in lefts)
        proposals.append(priced(COOL, scenario, *changes))
    if link is not None and link < ALL_BUT_NOISE:
        evidence += [
            Evidence("bandwidth of the link to the host, of its widest", "link_share", link, DRIVER),
            Evidence("generation of the link", "pcie_gen", driver.link_gen, DRIVER),
            Evidence("generation that both ends support", "pcie_gen_max", driver.link_gen_max, DRIVER),
            Evidence("lanes of the link", "pcie_width", driver.link_width, DRIVER),
            Evidence("lanes that both ends support", "pcie_width_max", driver.link_width_max, DRIVER),
        ]
        if is_clocked(scenario):
            proposals.append(replace(RESEAT, change=Change(copying=link)))
    cause = "device.throttled" if slow else "device.transfer"
    return Finding("gpu-hw-degraded", cause, evidence, proposals) if evidence else None


# gpu-shared
ALONE = Proposal(
    id="exclusive-gpu",
    title="train on a device of its own",
    fix=Fix("choose a free device", "CUDA_VISIBLE_DEVICES=3 python train.py  # see nvidia-smi, amd-smi"),
    apply="admin",
    risk="the others may be yours, and needed",
)


@finding("device.shared", ALONE, device=True)
def gpu_shared(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when other processes use time or memory of the device."""
    driver, scenario = given(diagnosis.device).driver, diagnosis.scenario
    if scenario is None or driver.foreign_processes is None:
        return "the driver's list of processes on the device, the job's included"
    held = (driver.foreign_bytes or 0.0) / driver.memory_bytes if driver.memory_bytes else 0.0
    taken = 0.0 if driver.our_share is None else 1 - driver.our_share
    if max(held, taken) < TRIFLE:
        return None
    evidence = [
        Evidence("other processes on the device", "foreign_processes", driver.foreign_processes, DRIVER),
        Evidence("share of device memory that they hold", "foreign_memory_share", held, DRIVER),
    ]
    if driver.our_share is None or taken < TRIFLE:
        return Finding("gpu-shared", "device.shared", evidence)
    evidence.append(Evidence("share of device busy time that they take", "foreign_busy_share", taken, DRIVER))
    change = scaled_device(scenario, diagnosis.host, driver.our_share)
    return Finding("gpu-shared", "device.shared", evidence, [replace(ALONE, change=change)])
