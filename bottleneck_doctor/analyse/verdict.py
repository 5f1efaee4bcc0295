"""Names the resource that limits the run and the cause behind it, or says that it cannot."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..model.device import DeviceView
from ..model.diagnosis import HostLoad, Inputs, Scenario
from ..model.loops import Loader
from ..model.report import Verdict
from .predict import (
    RESOURCE,
    cause_gains,
    gains,
    helper_threads,
    is_clocked,
    shared_out,
    side_gains,
    side_of,
    without_feeders,
)
from .shares import MOST, NEARLY_ALL

BALANCED = 1.05  # a resource that would gain less is no limit [contract]
STEPS_AT_LEAST = 8  # fewer steady steps are never a diagnosis (chosen; three is the contract's example)
SECONDS_AT_LEAST = 0.5  # nor is a shorter steady window (chosen; 0.3 s is the contract's example)
WHOLE_SECONDS = 30  # what is advised instead of a limit that was too short [docs/ci.md]
CROWDED = 1.2  # gain without workers that delay the model, from which they are the cause (chosen)
WIDER = 4 / 3  # what another number of threads would likely gain, to be the cause: a quarter of the step
# The share of a model's own computing, and of the pages that it maps, that can be saved: a smaller one still
# computes and allocates, while an input's cost may vanish (chosen).
SPARED, PARTLY = 0.85, ("model", "host.memory")
# The same of writing next to a model, from which it is the cause: without it the model is faster, too (of six
# near ties, four were writing's by measurement: 0.81 and more; two the model's: 0.65 and less).
DISTURBS = 0.75
# What a second side saves of what the first does, weighed by SPARED, from which confidence is medium at most,
# and low: of 180 trainings composed by seed 3 % were wrong below, 19 % between, and 36 % above.
NEAR, NEARER = 0.5, 0.7

WRITES = ("host.checkpoint", "host.logging")
NO_GAINS: dict[str, float | None] = {"cpu": None, "io": None, "gpu": None, "comm": None}  # nothing replayed
# Judged below, together with the cause that they would be mistaken for.
APART = ("input.oversubscribed", "model.threads")

SENTENCES = {
    "input.preprocess": "making batches keeps the CPU busy: decoding, augmenting, tokenising in the data set",
    "input.collate": "putting samples together into batches takes the CPU's time",
    "input.indexing": "rows are chosen or picked one by one in Python, and stacked again",
    "input.ipc": "batches are ready, but moving them from worker to trainer is what takes time",
    "input.storage": "data loading is blocked on storage reads",
    "input.network": "data loading is blocked on the network",
    "input.worker_startup": "worker processes are started again and again",
    "input.oversubscribed": "workers, their threads and the model's own threads compete for too few cores",
    "input.wait": "data loading sleeps on a timer, a lock or a queue: more batches in flight help, a faster "
    "CPU, disk or GPU does not",
    "host.checkpoint": "saving checkpoints stops the training loop",
    "host.logging": "logging and flushing stop the training loop",
    "host.gc": "garbage collections stop the training loop",
    "host.python": "Python code of the training loop itself, outside of model and loader, takes the time",
    "host.launch": "the step consists of tiny operators: calling them costs more than they compute",
    "host.memory": "the kernel spends the step on memory: pages that are mapped anew in each step, or memory "
    "pressure",
    "host.evaluation": "evaluation takes more of the run than anything that could be saved in training",
    "model.threads": "the model computes with too few or too many threads for the cores it may use",
    "comm.allreduce": "ranks wait for exchanges between them, which computing does not hide",
    "comm.straggler": "ranks wait for the slowest of them",
    "model.compute": "the model's own computation on the CPU sets the pace",
    "device.compute": "the accelerator is busy and sets the pace; data is there in time",
    "device.underfilled": "the loop waits on the accelerator, which is often idle or half empty",
    "device.transfer": "the accelerator waits for batches to be copied to it",
    "device.memory": "the accelerator stands still while its memory is allocated anew, again and again",
    "device.throttled": "the accelerator runs below its clock: power, heat or a fault hold it back",
    "device.shared": "other processes compute on the same accelerator",
    "host.sync": "the loop stops to wait for the accelerator, which then stands idle until it is given more",
    "none": "even an infinitely fast CPU, disk or GPU would gain less than 5 %",
}

RESTS = (
    "lines of the training loop itself sleep, on a timer or for a reply: a faster CPU, disk or GPU does "
    "not help"
)

# The same causes where only the driver was read: it does not show who waits for whom.
UNCLOCKED = {
    "device.compute": "the loop's own time outweighs the data's, and the driver sees the accelerator busy; "
    "whether with much work or with many small kernels is not known without its own clock",
    "device.underfilled": "the loop's own time outweighs the data's, and the driver often sees no kernel on "
    "the accelerator; what keeps it waiting is not known without its own clock",
}

# The same with its own clock but without a profiler's window; and where nothing was measured.
UNDIVIDED = (
    "the accelerator hardly waits for data; whether it computes all that time, or also waits to be given "
    "work, is not known without a profiler's window"
)
AHEAD = (
    "the accelerator finishes each step before the next kernels are issued; its own time per "
    "step is not known without a profiler window"
)
UNASKED = "the loop's own time outweighs the data's; what the accelerator does in that time was not measured"


@dataclass(frozen=True)
class Trust:
    """What confidence rests on. ``held`` is the share of the step in which workers kept the loop from a core,
    ``waits`` that in which it waited for data; ``disagreement`` is how far the share of time that its thread
    sleeps by its own clocks lies from what was seen from outside."""

    steps: int
    seconds: float
    model_error: float
    blocked_samples: int
    held: float = 0.0
    waits: float = 0.0
    disagreement: float = 0.0
    unseen: bool = False
    stopped_by: str | None = None


def sends(base: Scenario) -> bool:
    """Whether a pool that feeds the loop spends its time on handing over what it made, not on making it."""
    return base.feeders.sending >= MOST


def decide(
    base: Scenario | None,
    inputs: Inputs,
    loader: Loader | None,
    host: HostLoad,
    trust: Trust,
    threads: float = 1.0,
    device: DeviceView | None = None,
) -> tuple[Verdict, dict[str, float]]:
    """The verdict, and what removing each cause would gain; ``threads`` is what a better number of the
    model's threads would."""
    if base is None or trust.steps < STEPS_AT_LEAST or trust.seconds < SECONDS_AT_LEAST:
        return _inconclusive(trust), {}
    if trust.unseen and trust.waits >= 1 - 1 / BALANCED:
        return _inconclusive(trust), {}
    gain = gains(base, host)
    causes = cause_gains(base, inputs, loader, host, trust.held, device) | {"model.threads": threads}
    clocked = not host.accelerated or is_clocked(base)
    known = {name: value for name, value in gain.items() if value is not None}
    bound = max(known, key=known.__getitem__)
    if known[bound] < BALANCED:
        bound, cause = ("latency", "input.wait") if causes["input.wait"] >= BALANCED else ("balanced", "none")
        return Verdict(bound, cause, SENTENCES[cause], confidence(trust, inputs, clocked), None, gain), causes
    second, close = "", 0.0
    if host.accelerated:  # host and device overlap: no single part of the step is its length
        fitting = [one for one in causes if RESOURCE[one] in (bound, "")]  # host work can be either
        cause = max(fitting, key=causes.__getitem__)
    else:
        cause, second, close = _largest(causes, base)
        bound = _bound_of(cause, base) or bound
    rests = cause == "host.python" and bound == "latency"
    cause = "input.wait" if rests else _unless_crowded(cause, causes, base, inputs, host)
    if cause == "model.threads":
        gain["cpu"] = max(threads, gain["cpu"] or 1.0)
    if causes["input.wait"] > known.get(bound, 1.0) and causes["input.wait"] >= BALANCED:
        bound, cause = "latency", "input.wait"
    if cause in ("input.preprocess", "input.wait") and sends(base):
        bound, cause = RESOURCE["input.ipc"], "input.ipc"  # they do little but pickle and send
    sure = confidence(trust, inputs, clocked, close)
    if cause == "model.threads" and sure == "high":
        sure = "medium"  # what another number of threads gains is a range, not a measurement
    words = RESTS if rests else SENTENCES[cause]
    words = words.replace("storage reads", "writes that wait for a disk") if inputs.written else words
    if close > NEARLY_ALL and side_of(second) != side_of(cause):
        words += f"; {second} takes about as much"
    if not clocked:
        unread = _unclocked(cause, host, device)
        guess = cause == "device.underfilled" or host.device_busy is None
        sure, words = "low" if guess and unread else sure, unread or words
    least = max(BALANCED, NEARLY_ALL * known.get(bound, 1e9))  # of a resource that gains nearly as much
    others = [name for name in known if name != bound and known[name] >= least]
    return Verdict(bound, cause, words, sure, max(others, key=known.__getitem__, default=None), gain), causes


def _unless_crowded(
    cause: str, causes: dict[str, float], base: Scenario, inputs: Inputs, host: HostLoad
) -> str:
    """The cause, or that threads compete for cores: a model or a preparation that is delayed is not known to
    be slow itself."""
    if cause == "model.compute":
        if causes["input.oversubscribed"] >= CROWDED:
            return "input.oversubscribed"
        return "model.threads" if causes["model.threads"] >= WIDER else cause
    if cause != "input.preprocess":
        return cause
    own, shared = max(helper_threads(base, inputs, host), without_feeders(base)), shared_out(base)
    shared = shared if shared - 1 >= MOST * (causes[cause] - 1) else 1.0
    return "input.oversubscribed" if max(own, shared) >= CROWDED else cause


def _bound_of(cause: str, base: Scenario) -> str:
    """The resource whose shortage a cause is, "" where any may be. The loop's own code either computes or
    sleeps until others answer."""
    if cause in WRITES:
        return bound_of_writing(base.shares.stored)
    asleep = base.shares.resting * sum(cost.idle for cost in base.costs)
    if cause == "host.python" and asleep > sum(cost.python for cost in base.costs):
        return "latency"
    return RESOURCE[cause]


def bound_of_writing(stored: float) -> str:
    """``io`` where logging and saving mostly sleep, as the written-to device is slow; else ``cpu``."""
    return "io" if stored >= 0.5 else "cpu"


def _unclocked(cause: str, host: HostLoad, device: DeviceView | None) -> str:
    """What is known of a device whose step could not be divided; empty where that changes nothing."""
    read = device is not None and device.clock is not None
    if read and cause == "host.launch":
        return AHEAD
    if cause not in UNCLOCKED:
        return ""
    return UNDIVIDED if read else UNCLOCKED[cause] if host.device_busy is not None else UNASKED


def _largest(causes: dict[str, float], base: Scenario) -> tuple[str, str, float]:
    """The cause whose removal gains most, of the side whose removal does; that of the second side; and what
    the second saves of what the first does, weighed as they are compared."""
    causes = {cause: value for cause, value in causes.items() if cause not in APART}
    whole = {side_of(cause): value for cause, value in causes.items()} | side_gains(base)
    weighed = {one: (1 - 1 / value) * (SPARED if one in PARTLY else 1.0) for one, value in whole.items()}
    sides = sorted(weighed, key=weighed.__getitem__, reverse=True)[:2]
    first, second = (
        max((one for one in causes if side_of(one) == side), key=causes.__getitem__) for side in sides
    )
    more, less = (weighed[side] for side in sides)
    close = less / more if more > 0 else 0.0
    if first == "model.compute" and second in WRITES and close > DISTURBS:
        first, second = second, first
    return first, second, close


def confidence(trust: Trust, inputs: Inputs, clocked: bool = True, close: float = 0.0) -> str:
    """high, medium or low: how well the replay reproduces the run, how much was observed, and how ``close``
    the second cause comes to the first.

    Where a device's own clock was not read, a wait in the loop may be hidden behind it: never high.
    """
    blocked = inputs.storage + inputs.network + inputs.wait
    guessed = inputs.wall > 0 and blocked > 0.3 * inputs.wall and trust.blocked_samples < 20
    if trust.steps < 30 or trust.model_error > 0.4 or trust.disagreement > 0.3 or close > NEARER:
        return "low"
    if trust.model_error > 0.15 or guessed or not clocked or trust.disagreement > 0.15 or close > NEAR:
        return "medium"
    return "high"


def _inconclusive(trust: Trust) -> Verdict:
    if trust.steps == 0:
        why = "no training step was seen"
    elif trust.steps < STEPS_AT_LEAST:
        seen = "1 steady step was" if trust.steps == 1 else f"{trust.steps} steady steps were"
        why = f"only {seen} seen; {STEPS_AT_LEAST} is the least: {_longer(trust)}"
    elif trust.unseen:
        waits = f"{100 * trust.waits:.0f} % of the step waits for batches"
        why = f"{waits}, and what makes them was not seen: workers older than the block, or another loader"
    else:
        seconds = min(trust.seconds, SECONDS_AT_LEAST - 0.001)  # never rounded to what would be enough
        lasted = f"{trust.steps} steady steps lasted {seconds:.3g} s"
        why = f"{lasted}; {SECONDS_AT_LEAST} s is the least: {_longer(trust)}"
    return Verdict("inconclusive", "none", why, "low", None, NO_GAINS)


def _longer(trust: Trust) -> str:
    """What to ask for instead of the limit that ended the run: half as many steps again as it takes."""
    if trust.stopped_by not in ("max-steps", "max-seconds"):
        return "let it run longer"
    wanted = 1.5 * max(STEPS_AT_LEAST, SECONDS_AT_LEAST * trust.steps / max(trust.seconds, 1e-6))
    grid = 50 if wanted < 500 else 100
    steps = f"--max-steps {grid * math.ceil(wanted / grid)}, or " if trust.stopped_by == "max-steps" else ""
    return f"take {steps}--max-seconds {WHOLE_SECONDS}"
