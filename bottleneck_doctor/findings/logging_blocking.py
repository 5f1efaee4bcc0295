"""Log lines, progress bars and forced flushes stop the training loop.

## What it means
The loop writes in the middle of a step and goes on when the writing has ended.

## Why it costs
A buffered line costs microseconds. A flush to the disk, a slow terminal, a network file system, or an image
for TensorBoard costs milliseconds, every time.

## How it is measured
Wall and CPU time inside log handlers, tqdm's display, TensorBoard's event writer and forced flushes of log
files, in the loop's own thread; a flush inside or after a checkpoint belongs to the checkpoint. Calls below
20 us are not noted. What no hook knows, such as a dump into a file, is seen by stacks of the loop's thread:
samples at lines whose result is written out, by the user's source, and in calls that wait for the disk
(`flush` of a memory map, `commit` of a database), whatever is done with the result.

## Thresholds
More than 1 % of the steady step (ours).

## When this advice is wrong
Records that must survive a crash need their flush. Where the logged value is a tensor on an accelerator,
the time goes into waiting for it, before the handler is called: that is not counted here. In a trial of
`bdoc prove` what is computed only to be logged is computed all the same, so that a little less is measured
than an edit brings.

## Prediction
Replay with a fiftieth of the logging. With a writer thread: the measured CPU of the calls stays, as the
interpreter runs one thread at a time, and 15 us per call for the queue (measured: 11); the rest of the time
goes.

## References
logging.handlers.QueueHandler and QueueListener; tqdm, `mininterval`; fsync(2).
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.loop_cpu import logged
from ..model.code import FunctionSource, Location
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operation, Stack
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import operations_of, step_share
from .parts.entry import Case, Entry, given, loader_loop, patient
from .parts.lines import STACKS, quoted, rarely

ID = "logging-blocking"
SHARE = 0.01  # of the step [catalogue F28, ours]
EVERY = 50  # steps between two records: often enough to watch a curve (ours)
MOST = 0.5  # of the logging, timed by hooks: their lines are then the ones to name (ours)
QUEUED_S = 1.5e-5  # per record handed to a queue [measured: 11 us]
ASLEEP = 0.5  # of its samples, or a call that could wait for the disk computes (ours)
HOOKS = "hooks on log handlers, tqdm, fsync"
OFTEN = f"step % {EVERY} == 0"
EXAMPLE = f"""\
{rarely(OFTEN, 'log.info("loss %.4f", float(loss))')}
bar = tqdm(loader, mininterval=2.0)      # and let the progress bar draw every two seconds"""
LOG_RARELY = Proposal(
    id="log-every-n",
    title=f"log every {EVERY}th step",
    fix=Fix("log less often, and let progress bars draw less often", EXAMPLE),
    change=Change(logging=1 / EVERY),
    apply="hook~",
    risk="what happens between two records is not seen",
    treatments=(Treatment("rare_logging", {"every": EVERY}),),
)
FLUSH_RARELY = Proposal(
    id="flush-rarely",
    title=f"wait for the disk at every {EVERY}th step only",
    fix=Fix("let the kernel write, and ask it to finish now and then", rarely(OFTEN, "file.flush()")),
    change=Change(logging=1 / EVERY),
    risk="what was written since the last flush may be lost when the machine stops",
)
WRITER = Proposal(
    id="async-writer",
    title="let another thread write the log",
    fix=Fix(
        "put records into a queue; a listener writes them",
        "records = queue.SimpleQueue()\n"
        "log.addHandler(logging.handlers.QueueHandler(records))           # in place of the slow handler\n"
        "listener = logging.handlers.QueueListener(records, slow_handler)\n"
        "listener.start()                                                 # and listener.stop() at the end",
    ),
    risk="the last records may be lost in a crash",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when logging takes a noticeable part of the steady step."""
    loop, share = given(diagnosis.loop), step_share(diagnosis, "logging")
    if share <= SHARE:
        return None
    calls, seen = operations_of(diagnosis, "logging"), logged(diagnosis.profile, loop)
    steps = max(1, loop.steps)
    hooked_s = _total(calls) / steps if calls else 0.0
    if calls and (seen.purpose is None or hooked_s >= MOST * share * diagnosis.step_s):
        place, left = calls[0].location, _cpu(calls) + QUEUED_S * _count(calls) / _total(calls)
        evidence = [
            Evidence("share of the step spent on logging", "logging_share", share, HOOKS),
            Evidence("calls per step", "logging_calls_per_step", _count(calls) / steps, HOOKS),
            Evidence("time per call", "logging_call_s", _total(calls) / _count(calls), HOOKS),
            Evidence("share of that on the CPU", "logging_cpu_share", _cpu(calls), HOOKS),
        ]
        proposals = [
            LOG_RARELY.at(place, _snippet(diagnosis, place)),
            replace(WRITER.at(place), change=Change(logging=min(1.0, left))),
        ]
        return Finding(ID, "host.logging", evidence, proposals, place)
    evidence = [Evidence("share of the step spent on logging", "logging_share", share, STACKS)]
    place = seen.purpose.line if seen.purpose is not None else None
    around = seen.purpose.caller if seen.purpose is not None else None
    if place is not None:
        text = f"share of the loop's samples in what {place.function} writes out"
        evidence.append(Evidence(text, "written_share", seen.share, STACKS))
    if seen.purpose is not None and seen.purpose.forced and seen.asleep >= ASLEEP:
        evidence[0] = replace(evidence[0], text="share of the step spent on writing, the disk awaited")
        return Finding(
            ID, "host.logging", evidence, [FLUSH_RARELY.at(place, _flushed(diagnosis, place))], place
        )
    seldom = LOG_RARELY.at(around, _snippet(diagnosis, around))
    return Finding(ID, "host.logging", evidence, [replace(seldom, apply="manual", treatments=())], place)


def _snippet(diagnosis: Diagnosis, place: Location | None) -> str:
    """The user's own line where it is known and is no progress bar."""
    line = quoted(diagnosis, place)
    return rarely(OFTEN, line) if line else EXAMPLE


def _flushed(diagnosis: Diagnosis, place: Location | None) -> str:
    return rarely(OFTEN, quoted(diagnosis, place) or "file.flush()")


def _count(calls: list[Operation]) -> int:
    return sum(one.count for one in calls)


def _total(calls: list[Operation]) -> float:
    return max(1e-9, sum(one.total_s for one in calls))


def _cpu(calls: list[Operation]) -> float:
    """The share of CPU in the calls' time."""
    return min(1.0, sum(one.cpu_s for one in calls) / _total(calls))


FLUSHES = Operation("logging", 1, 0, "emit", 1200, 0.48, 0.06, 0.01, Location("train.py", 40, "main"))
PAINTED = replace(FLUSHES, cpu_s=0.47)
SICK = StepCost(0.0006, logging=0.0012)
LOOP = """\
for x, y in loader:
    loss = model(x, y)
    loss.backward()
    track(file, model)
"""
TRACK = """\
def track(file, model):
    file.write(json.dumps({name: one.tolist() for name, one in model.named_parameters()}))
"""


KEEP = """\
def track(file, model):
    file.rows[0] = model.weight.detach()
    file.flush()
"""


MEMMAP = "memmap.flush (/usr/lib/python3/site-packages/numpy/_core/memmap.py:340)"


def _dumped(track: str = TRACK, *called: str, running: int | None = None) -> Diagnosis:
    """Weights go into a file, which no hook knows; stacks say where."""
    sick = patient(BatchCost(1e-5), SICK)
    frames = ["<module> (train.py:13)", f"track (train.py:{len(track.splitlines())})", *called]
    facts = replace(
        sick.profile,
        stacks=[Stack(1, "trainer", "MainThread", frames, 60, running)],
        sources=[
            FunctionSource("train.py", "<module>", 10, LOOP),
            FunctionSource("train.py", "track", 1, track),
        ],
    )
    return replace(sick, profile=facts)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case(
            "three flushes per step",
            patient(BatchCost(1e-5), SICK, operations=(FLUSHES,)),
            "fires",
            "async-writer",
        ),
        Case(
            "pictures painted per step",
            patient(BatchCost(1e-5), SICK, operations=(PAINTED,)),
            "fires",
            "log-every-n",
        ),
        Case("weights dumped into a file", _dumped(), "fires", "log-every-n"),
        Case("a memory map is synced", _dumped(KEEP, MEMMAP, running=9), "fires", "flush-rarely"),
        Case("a flush that computes", _dumped(KEEP, running=60), "fires", "log-every-n"),
        Case("a file is flushed, in C", _dumped(KEEP, running=9), "fires", "flush-rarely"),
        Case(
            "a flush now and then",
            patient(BatchCost(1e-5), StepCost(0.002, logging=5e-6), operations=(FLUSHES,)),
            "silent",
        ),
        Case("no loop was seen", replace(patient(BatchCost(1e-5), SICK), loop=None), "abstains"),
    )


FINDING = Entry(
    ID, "host.logging", examine, needs=(loader_loop,), remedies=(LOG_RARELY, FLUSH_RARELY, WRITER)
)
