"""What the hooks of one process share: its writer of rows, the counters, and which steps are sampled.

Also who the process is, and when its end begins.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import get_ident, get_native_id
from time import monotonic_ns as now

from . import wire
from .guard import at_fork, quiet, undo
from .hints import Any, Callable, FrameType
from .rows import EventWriter

INHERENT = os.path.join("torch", "amp", "grad_scaler.py")  # a library's wait that scripts cannot avoid
# Of a step's time at most, by our own count, for the first samples and for those after; the true cost of
# a sample is about twice that, since it leaves cold caches behind (measured, docs/overhead.md).
CLOSE_LOOK_SHARE, LATER_SHARE = 0.005, 0.0025
FIRST_LOOKS = 200  # as many as a run of some seconds has
STRIDE_AT_MOST = 4096
STRIDE_GROWTH = 4  # times from one adjustment to the next: a single slow sample must not set the stride
SCRAMBLE = 0x9E3779B1  # times a step's number: no period that a training may have (Knuth, section 6.4)
KEPT = ("stop_at", "control", "on_first", "resting", "seeking", "profiled")  # by a forked child
PACE_EVERY = 32  # sampled steps between two adjustments of the stride at most, and
PACE_NS = 1_000_000_000  # this much time: the next loop may be slower than the last


class IteratorCounts:
    """What we know of one iterator.

    ``rate`` = (backward passes, optimizer steps) of the last sampled step, taken for the ``countdown`` steps
    from the arrival ``rested`` on until the next. ``seen`` = the counts when it began, ``left_ns`` = when its
    batch was there, ``spent_ns`` = nanoseconds of the loop's time that sampling it took
    after that. ``paced`` = what the iterator whose steps count had arrived at by then. ``tallied`` =
    the (arrivals, wait) that the process's totals hold already.
    """

    __slots__ = (
        "arrivals", "countdown", "left_ns", "loader", "looked", "number", "paced", "rate", "rested", "seen",
        "spent_ns", "tallied", "thread", "wait_ns",
    )  # fmt: skip

    def __init__(self, loader: int, number: int, thread: int) -> None:
        self.loader, self.number, self.thread = loader, number, thread
        self.arrivals = self.looked = self.wait_ns = self.countdown = self.left_ns = self.spent_ns = 0
        self.paced = self.rested = 0
        self.seen = self.rate = self.tallied = (0, 0)


class AgentState:
    """The state of one process, begun anew after fork. Attributes are plain: reading one costs 20 ns.

    ``close``: the present step is sampled; ``stride``: every stride-th step is; ``resting``: the hooks of
    backward and optimizer are off between sampled steps.
    """

    def begin(self, folder: str) -> None:
        """Forget everything and open this process's file of rows."""
        self.folder = folder
        self.writer = EventWriter(folder)
        self.row = self.writer.row
        self.writer.on_full = self.halve
        self.control: Any = None  # stop.Control
        self.window: Any = None  # profiler.ProfilerWindow or trace_window.TraceWindow, while one is open
        self.profiled = False  # a profiler of the script's is on, or in warm-up, which torch does not tell
        self.worker = False
        self.close = True
        self.resting = False
        self.sampled: IteratorCounts | None = None  # whose present step is sampled
        self.pacer: IteratorCounts | None = None  # whose last sampled step stands for the others
        self.trained_on = 0  # the loader whose batches were last seen to be trained on, 0 = none yet
        self.ranked = False  # this process is one of several that train together
        self.stride = 1
        self.floor = 1
        self.countdown = 0
        self.looks = self.looks_before = 0
        self.steps = 0  # that went by since the stride was set
        self.cost_ns = self.cost_before = 0
        self.hooks_ns = 0  # of that, what the hooks inside of the step took, until the look is accounted for
        self.last_ns = 0
        self.span_before = 0
        self.arrivals = 0
        self.wait_ns = 0
        self.backwards = 0
        self.seen = 0  # backward passes that belong to steps counted already
        self.optimizer_steps = 0
        self.loaderless = False  # the steps that go by are counted by agent/loop_without_loader.py
        self.stepping = False  # an optimizer's step is running
        self.passing = 0  # backward passes that are running, and
        self.stepped_within = False  # an optimizer has stepped within them
        self.trained = 0
        self.stop_at = 0
        self.iterators = 0
        self.inside: IteratorCounts | None = None  # whose __next__ is running here, for one-process fetches
        self.trainer = 0  # the thread that steps the optimizer, by its small number
        self.threads: dict[int, int] = {}
        self.sites: dict[tuple[str, str, int], int] = {}
        self.opens = 0
        self.in_fetch = 0  # `get_ident` of the thread that is inside a sampled fetch
        self.feeder = 0  # the thread that serialises batches, of a worker
        self.accelerator: Any = None  # whose clock is read: agent/device_clock.py, or a simulated one
        self.graphs = False  # the script captures CUDA graphs
        self.captures = 0  # that are under way, in any thread
        self.recorded = 0  # captures so far
        self.elsewhere = 0  # sampled steps in a row that computed on another stream than they began on
        self.seeking = False  # torch was built for an accelerator, and none is in use yet
        self.look: Any = None  # the SampledDeviceStep under way
        self.clock_ns = 0  # what reading its clock has taken of the loop's time
        self.clock_since = 0  # when it was to be read first
        self.emptied = 0  # how often the script emptied the allocator's cache
        self.pending: list[Any] = []  # such steps that the device has yet to come past
        self.on_first: Callable[[], object] | None = None  # called once, when the training begins to move

    def begun(self, at_ns: int) -> None:
        """The first batch is here: note it on the board and read what the script has set."""
        self.writer.post(wire.FIRST, at_ns)
        self.writer.post(wire.TRAINER, get_native_id())
        if self.on_first is not None:
            self.on_first()

    def thread(self) -> int:
        """A small number for the calling thread; 0 is the main one."""
        ident = get_ident()
        number = self.threads.get(ident)
        if number is None:
            import threading  # not at the start of an interpreter that may never compute

            main = threading.main_thread().ident == ident
            number = self.threads[ident] = 0 if main else len(self.threads) + 1
        return number

    def halve(self) -> None:
        """A chunk is full: sample half as many steps from now on: the file of a long run stays small."""
        self.floor = min(self.floor * 2, STRIDE_AT_MOST)
        self.stride = max(self.stride, self.floor)

    def skip(self, arrivals: int) -> int:
        """Steps until the next sampled one, by turns one more: what a loop does every n-th step would else
        be in all samples or in none. Ranks sample the same steps: the step's number alone decides."""
        if self.ranked:
            return _to_shared_look(arrivals + 1, 1 << (self.stride - 1).bit_length()) - 1
        return self.stride - 1 + (self.looks & 1 if self.stride > 1 else 0)

    def not_beyond(self, steps: int) -> int:
        """As many, or fewer where the training is to end before: the step before the last is sampled, since
        steps after the last sample are counted nowhere."""
        return min(steps, max(0, self.stop_at - self.trained - 2)) if self.stop_at else steps

    def looked(self, cost_ns: int, at_ns: int, steps: int) -> None:
        """Account for one sampled step in so many; now and then set how many to skip until the next."""
        self.cost_ns += cost_ns + self.hooks_ns
        self.hooks_ns = 0
        self.looks += 1
        self.steps += steps
        looks = self.looks - self.looks_before
        if looks < PACE_EVERY and at_ns - self.span_before < PACE_NS:
            return
        cost = (self.cost_ns - self.cost_before) / looks
        step = (at_ns - self.span_before) / self.steps
        if self.span_before and step > 0:
            share = CLOSE_LOOK_SHARE if self.looks < FIRST_LOOKS else LATER_SHARE
            wanted = int(cost / (share * step)) + 1
            self.stride = min(max(wanted, self.floor), STRIDE_AT_MOST, STRIDE_GROWTH * self.stride)
        self.cost_before, self.span_before = self.cost_ns, at_ns
        self.looks_before, self.steps = self.looks, 0
        self.writer.post(wire.COST, self.cost_ns)

    def tally(self, account: IteratorCounts) -> None:
        """Add to the totals what the iterator has brought since the last time."""
        arrivals, wait_ns = account.tallied
        account.tallied = account.arrivals, account.wait_ns
        self.arrivals += account.arrivals - arrivals
        self.wait_ns += account.wait_ns - wait_ns

    def catch_up(self, ending: IteratorCounts | None) -> None:
        """The steps that were not sampled are taken to have done what the last sampled one did. Of those of
        ``ending`` the one that runs is over, too."""
        pacer = self.pacer
        if pacer is None or not self.resting:
            return
        self.tally(pacer)
        unheard = max(0, pacer.arrivals - pacer.rested - (pacer is not ending))
        backwards, steps = pacer.rate
        self.backwards = self.seen = self.backwards + backwards * unheard
        self.optimizer_steps += steps * unheard
        self.trained += unheard
        pacer.rested += unheard

    def site(self, kind: str, frame: FrameType | None) -> int:
        """The number of the user's line that called the hook; the line is written out once."""
        if frame is not None:  # most are called from the user's own line: no need to look for it
            known = self.sites.get((kind, frame.f_code.co_filename, frame.f_lineno))
            if known is not None:
                return known
        frame = _users_frame(frame)
        key = (kind, frame.f_code.co_filename, frame.f_lineno) if frame else (kind, "", 0)
        number = self.sites.get(key)
        if number is None:
            number = self.sites[key] = len(self.sites) + 1
            function = frame.f_code.co_name if frame else ""
            self.writer.fact(fact="site", site=number, kind=kind, file=key[1], line=key[2], function=function)
        return number


def _to_shared_look(next_step: int, one_in: int) -> int:
    """Steps until the next sampled step that all ranks share: its scrambled number ends in zeros. A rank that
    samples one in four samples all steps of a rank that samples one in eight."""
    for ahead in range(1, 4 * one_in):
        if not ((next_step + ahead - 1) * SCRAMBLE >> 16) & (one_in - 1):
            return ahead
    return 4 * one_in


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame outside of libraries and the agent; else the nearest outside of the agent."""
    nearest = None
    for _ in range(64):
        if frame is None:
            break
        name = frame.f_code.co_filename
        if not name.startswith((_OURS, "<frozen")):
            nearest = nearest or frame
            if name.endswith(INHERENT):
                return frame
            if "site-packages" not in name and "dist-packages" not in name and not name.startswith(_STDLIB):
                return frame
        frame = frame.f_back
    return nearest


_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
state = AgentState()  # the one of this very process


def begin(folder: str) -> None:
    """Start the pulse of this process and make sure that forked children get their own."""
    state.begin(folder)
    at_fork(_forked)


def _forked() -> None:
    kept = {name: getattr(state, name) for name in KEPT}
    state.begin(state.folder)
    for name, value in kept.items():
        setattr(state, name, value)


OTHERS_AT_MOST = 256  # arrivals in other threads, until our own must be taken for gone


# Rank and number of ranks, as launchers tell each task; a process group, once it is there, says it better.
# Slurm's batch script is task 0 of its own, so the step's count is asked for [srun(1), mpirun(1)].
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, DeepSpeed, PyTorchJob
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
)


@quiet
def introduce() -> None:
    """Write down who this process is, its rank by the first launcher that sets both names. The hook on its
    end is registered first, and so called last."""
    named = [[os.environ.get(name, "") for name in names] for names in LAUNCHERS]
    rank, size = next(([*map(int, one)] for one in named if all(map(str.isdigit, one))), (None, None))
    python = "%d.%d.%d" % sys.version_info[:3]
    state.writer.fact(fact="process", python=python, rank=rank, world_size=size)
    atexit.register(process_ends, True)
    undo.append(lambda: atexit.unregister(process_ends))


@quiet
def process_ends(shuts_down: bool = False) -> None:
    """The process, or what is watched of it, ends: note the instant, two counts, and an exception that ends
    it. From outside, a script that goes on after its last batch looks like one that shuts down."""
    if state.worker:
        return
    state.catch_up(None)
    error = getattr(sys, "last_value", None)  # Python keeps what it printed before it shuts down
    if shuts_down and error is not None:
        _note_crash(error)
    state.writer.fact(fact="exit", at_ns=now(), arrivals=state.arrivals, trained=state.trained)


@quiet
def _note_crash(error: BaseException) -> None:
    """Its class, the innermost line of the script's own code, the missing module, and which memory was short.
    Its text is not kept: it may hold anything."""
    traces, at = [], error.__traceback__
    while at is not None:
        traces.append(at)
        at = at.tb_next
    frame = _users_frame(traces[-1].tb_frame) if traces else None
    lines = [one.tb_lineno for one in traces if one.tb_frame is frame] or [0]
    kind, lacks = (type(error).__name__, error.name if isinstance(error, ImportError) else None)
    host = kind == "MemoryError" or (type(error) is RuntimeError and "DefaultCPUAllocator" in str(error))
    memory = "host" if host else "device" if kind == "OutOfMemoryError" else ""
    clock: Any = sys.modules.get("%s.device_clock" % __package__)
    if memory == "device" and clock is not None and state.accelerator is not None:
        clock.note_allocator(0)  # its peak by now
    state.writer.fact(
        fact="crash", error=kind, file=frame.f_code.co_filename if frame and lines[-1] else "",
        line=lines[-1], lacks=lacks if type(lacks) is str else "", python=sys.executable or "", memory=memory,
    )  # fmt: skip
