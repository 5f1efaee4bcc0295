"""Carries out one trial: a run of the training in a process of its own, bounded, and cleared up after.

The trial is a ``bdoc run`` with an order for its agents. It has a session of its own, so that Ctrl-C reaches
it through us alone; we adopt what its processes leave behind; and if the kernel must kill, this goes first.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from ..launch.doorbell import doorbell
from ..launch.signals import deferred, unwinding
from ..model.codec import encode_order, read_profile
from ..model.profile import Profile
from ..model.refusal import BadProfile
from ..model.trial import Order
from . import family
from .endings import Seen, judged
from .limits import Limits
from .memory import Memory
from .place import keep_short, place, tail
from .stillness import Stillness
from .sweeping import blocks, sweep_blocks, sweep_folders
from .traces import Traces

LOOK_EVERY_S = 0.2  # memory can be gone within a second
PROGRESS_EVERY_S = 0.5
ROOM = Path(__file__).resolve().parent.parent.parent

# As `python -m` would start us, without the folder that the user stands in: a `queue.py` there is not ours.
START = "import sys; sys.path = [*filter(None, sys.path), {room!r}]; import runpy; "
START += "runpy.run_module('bottleneck_doctor', run_name='__main__', alter_sys=True)"

Watch = Callable[[float], None]


@dataclass(frozen=True)
class Target:
    """What is run, as ``bdoc run`` was asked: a script, a module, or a launcher, and the words behind it."""

    script: str | None = None
    module: str | None = None
    launcher: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    python: str | None = None
    data_fn: tuple[str, ...] = ()


@dataclass(frozen=True)
class Leftovers:
    """What a trial had left behind and we removed: processes ended, by pid, blocks of shared memory, by name,
    and paths of ``folders`` of sockets. ``immortal`` are pids that outlived SIGKILL."""

    processes: tuple[int, ...] = ()
    blocks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    immortal: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finished:
    """What became of a trial. ``outcome``: measured, broke, hung, out-of-memory or interrupted, and ``why``.

    ``profile`` is there where the run wrote one. ``run_s``: from its start to its end, clearing up included.
    After ``interrupted`` (Ctrl-C) the user wants no further trial.
    """

    outcome: str
    why: str = ""
    profile: Profile | None = None
    run_s: float = 0.0
    memory_bytes: int | None = None
    leftovers: Leftovers = field(default_factory=Leftovers)


@dataclass
class _Trial:
    """One trial, from what was there before it to what it was seen to hold."""

    strangers: list[psutil.Process]
    blocks: dict[int, str]
    child: subprocess.Popen[bytes] | None = None
    traces: Traces = field(default_factory=Traces)


def run_trial(target: Target, order: Order, limits: Limits, *, watch: Watch | None = None) -> Finished:
    """Run the target with the order until ``limits.steps`` are trained. ``watch`` is called now and then with
    the seconds since the start.

    Nothing of the trial is left when this returns, or raises: no process, no shared memory, no folder. Raises
    UsageError where there is no place for its files.
    """
    with place() as folder:
        file = folder / "order.json"
        file.write_bytes(encode_order(order))
        options = ["--no-profiler", "--no-py-spy", "--trial", str(file), "--max-steps", str(limits.steps)]
        return _carried_out(_line(target, folder, options), folder, limits, watch)


def watch_baseline(target: Target, limits: Limits, *, watch: Watch | None = None) -> Finished:
    """Run the target with all instruments until its step time is known, ``limits.steps`` at most. Here
    ``limits.seconds`` count from the first batch: how long a start takes is not known yet."""
    with place() as folder:
        options = ["--until-steady", "--max-steps", str(limits.steps)]
        whole = replace(limits, seconds=limits.first_batch_s + limits.seconds)
        return _carried_out(_line(target, folder, options), folder, whole, watch)


def _line(target: Target, folder: Path, options: list[str]) -> list[str]:
    """The command line of the run."""
    options = ["--quiet", "--place", str(folder), "-o", str(folder / "profile.json"), *options]
    if target.python is not None:
        options += ["--python", target.python]
    for name in target.data_fn:
        options += ["--data-fn", name]
    if target.launcher:
        words = ["--", *target.launcher]
    else:
        words = ["-m", target.module] if target.module is not None else [target.script or "-"]
    return [sys.executable, "-c", START.format(room=str(ROOM)), "run", *options, *words, *target.args]


def _carried_out(line: list[str], folder: Path, limits: Limits, watch: Watch | None) -> Finished:
    trial, memory = _Trial(family.descendants(), blocks()), Memory(limits.memory_bytes)
    seen, left, began_s = Seen(), Leftovers(), time.monotonic()
    with family.adopting(), unwinding():
        try:
            try:
                prepare = family.expendable()
                with deferred():
                    trial.child = _started(line, folder, prepare)
                seen = _awaited(trial, trial.child, folder, limits, memory, watch)
            finally:
                with deferred():
                    left = _cleared(trial, trial.child) if trial.child is not None else left
        except KeyboardInterrupt:
            seen = replace(seen, interrupted=True)
    seen = replace(seen, short_of_memory=memory.was_short(), lines=tail(folder / "log"))
    profile = _profile(folder)
    outcome, why = judged(seen, profile)
    return Finished(outcome, why, profile, time.monotonic() - began_s, memory.peak_bytes, left)


def _started(line: list[str], folder: Path, prepare: Callable[[], None]) -> subprocess.Popen[bytes]:
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
        )


def _awaited(
    trial: _Trial,
    child: subprocess.Popen[bytes],
    folder: Path,
    limits: Limits,
    memory: Memory,
    watch: Watch | None,
) -> Seen:
    """Look now and then until the run ends, or must be ended."""
    stillness = Stillness(folder, limits)
    began_s, told_s = time.monotonic(), 0.0
    with doorbell(child.pid, ()) as sleep:
        while (status := child.poll()) is None:
            now_s = time.monotonic()
            if now_s - told_s >= PROGRESS_EVERY_S:
                told_s = now_s
                keep_short(folder / "log")
                if still := stillness.look(time.monotonic_ns()):
                    return Seen(still=still)
                if watch is not None:
                    watch(now_s - began_s)
            if now_s - began_s > limits.seconds:
                return Seen(still=f"not over after {limits.seconds:.0f} s")
            if scarce := memory.look(lambda: _training(trial), now_s):
                return Seen(scarce=scarce)
            sleep(LOOK_EVERY_S)
    return Seen(status)


def _training(trial: _Trial) -> list[psutil.Process]:
    """The training's processes, bdoc's own left out; what they hold is noted."""
    found = family.descendants(trial.strangers)
    trial.traces.note(one.pid for one in found)
    return [one for one in found if trial.child is None or one.pid != trial.child.pid]


def _cleared(trial: _Trial, child: subprocess.Popen[bytes]) -> Leftovers:
    """End whatever still runs, and remove what the dead cannot."""

    def living() -> list[psutil.Process]:
        child.poll()  # collects it, so that it is no zombie to the others
        return family.descendants(trial.strangers)

    over = child.poll() is not None
    if over:
        family.await_orderly_end(living)
    found = family.reap(living())
    trial.traces.note(one.pid for one in found)
    immortal = family.end(living, child.pid) if living() else []
    child.poll()
    return Leftovers(
        processes=tuple(one.pid for one in found) if over else (),  # whom we ended in the midst is none
        blocks=tuple(sweep_blocks(trial.blocks, trial.traces)),
        folders=tuple(sweep_folders(trial.traces)),
        immortal=tuple(immortal),
    )


def _profile(folder: Path) -> Profile | None:
    try:
        return read_profile(folder / "profile.json")
    except BadProfile:
        return None
