"""Starts one run, watches it to its end or ends it, and clears up: nothing of it is left.

It has a session of its own, so that Ctrl-C reaches it through us alone; we adopt what its processes leave
behind; and if the kernel must kill, this goes first.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from ..launch.signals import deferred, doorbell, unwinding
from ..model.codec import read_profile
from ..model.errors import BadProfile
from ..model.profile import Profile
from . import family
from .endings import Seen, judged
from .keeping import LIST, Keeping
from .limits import Limits
from .memory import Memory
from .pausing import Pause, pausable
from .place import keep_only, keep_short, tail
from .stillness import Stillness
from .sweeping import blocks, sweep_blocks, sweep_folders
from .traces import Traces

ORDER, LOG, PROFILE = "order.json", "log", "profile.json"  # in the trial's folder
LOOK_EVERY_S = 0.2  # memory can be gone within a second
PROGRESS_EVERY_S = 0.5

Watch = Callable[[float], None]


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


def carried_out(
    line: list[str], folder: Path, limits: Limits, watch: Watch | None, keeping: Keeping
) -> Finished:
    """Run this command, and say what became of it; what it writes lies in the ``folder``. After Ctrl-Z the
    machine is free until we are continued, the user's files are back, and the trial begins anew."""
    with pausable() as pause:
        while True:
            keeping.prepare(folder)
            found = _once(line, folder, limits, watch, pause)
            if found is not None:
                return found
            keeping.put_back(folder)
            pause.take()
            keep_only(folder, ORDER, LIST)


def _once(
    line: list[str], folder: Path, limits: Limits, watch: Watch | None, pause: Pause
) -> Finished | None:
    """From start to end; None where it was paused."""
    trial, memory = _Trial(family.descendants(), blocks()), Memory(limits.memory_bytes)
    seen, left, began_s = Seen(), Leftovers(), time.monotonic()
    with family.adopting(), unwinding():
        try:
            try:
                prepare = family.expendable()
                with deferred():
                    trial.child = _started(line, folder, prepare)
                seen = _awaited(trial, trial.child, folder, limits, memory, watch, pause)
            finally:
                with deferred():
                    left = _cleared(trial, trial.child) if trial.child is not None else left
        except KeyboardInterrupt:
            seen = replace(seen, interrupted=True)
    if pause.is_wanted and not seen.interrupted:
        return None
    seen = replace(seen, short_of_memory=memory.was_short(), lines=tail(folder / LOG))
    profile = _profile(folder)
    outcome, why = judged(seen, profile)
    return Finished(outcome, why, profile, time.monotonic() - began_s, memory.peak_bytes, left)


def _started(line: list[str], folder: Path, prepare: Callable[[], None]) -> subprocess.Popen[bytes]:
    with open(folder / LOG, "ab") as log:
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
            env={**os.environ, "BDOC_KEEP": str(folder)},
        )


def _awaited(
    trial: _Trial,
    child: subprocess.Popen[bytes],
    folder: Path,
    limits: Limits,
    memory: Memory,
    watch: Watch | None,
    pause: Pause,
) -> Seen:
    """Look now and then until the run ends, or must be ended."""
    stillness = Stillness(folder, limits)
    began_s, told_s = time.monotonic(), 0.0
    with doorbell(child.pid, ()) as sleep:
        while (status := child.poll()) is None and not pause.is_wanted:
            now_s = time.monotonic()
            if now_s - told_s >= PROGRESS_EVERY_S:
                told_s = now_s
                keep_short(folder / LOG)
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
        return read_profile(folder / PROFILE)
    except BadProfile:
        return None
