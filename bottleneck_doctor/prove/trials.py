"""Carries out one trial: a ``bdoc run`` of the training with an order for its agents, bounded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from ..launch import run_registry
from ..launch.signals import deferred, doorbell, unwinding
from ..launch.start import usual_places
from ..model.codec import encode_order, read_profile
from ..model.errors import BadProfile, UsageError
from ..model.profile import Profile
from ..model.run import Lifetime, Order
from .put_back_files import HIDDEN, WHERE, Backups
from .trial_limits import HangDetector, Limits, MemoryWatch, outcome_of
from .trial_processes import HeldResources, adopting, blocks, child_setup, descendants, end_all, remove_blocks

PREFIX = ".bdoc-prove-"
ORDER, LOG, PROFILE = "order.json", "log", "profile.json"  # in the trial's folder
TAIL_BYTES = 65536
LOG_BYTES_AT_MOST = 16 << 20
POLL_S = 0.2  # memory can be gone within a second
PROGRESS_S = 0.5

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


def run_trial(
    target: Target,
    order: Order | None,
    limits: Limits,
    watch: Watch | None = None,
    backups: Backups | None = None,
) -> Finished:
    """Run the target with the order until ``limits.steps`` are trained. Without one it is watched with all
    instruments until its step time is known, and ``limits.seconds`` count from the first batch.

    ``watch`` is called now and then with the seconds since the start; ``backups`` is that of the command.
    Nothing of the trial is left when this returns, or raises: no process, no shared memory, no folder; and
    files that were there before it are as they were. Raises UsageError where there is no place for its files.
    """
    backups = backups or Backups()
    with trial_folder(backups.put_back) as folder:
        options = ["--max-steps", str(limits.steps)]
        if order is None:
            options.append("--until-steady")
            limits = replace(limits, seconds=limits.first_batch_s + limits.seconds)
        else:
            file = folder / ORDER
            file.write_bytes(encode_order(order))
            options += ["--no-profiler", "--no-py-spy", "--trial", str(file)]
        return _run_bounded(_line(target, folder, options), folder, limits, watch, backups)


# As `python -m` starts it, without the user's working directory: a `queue.py` there must not be imported.
START = "import sys; sys.path = [*filter(None, sys.path), {room!r}]; import runpy; "
START += "runpy.run_module('bottleneck_doctor', run_name='__main__', alter_sys=True)"


def _line(target: Target, folder: Path, options: list[str]) -> list[str]:
    """The command line of the run."""
    options = ["--quiet", "--place", str(folder), "-o", str(folder / PROFILE), *options]
    if target.python is not None:
        options += ["--python", target.python]
    for name in target.data_fn:
        options += ["--data-fn", name]
    if target.launcher:
        words = ["--", *target.launcher]
    else:
        words = ["-m", target.module] if target.module is not None else [target.script or "-"]
    start = START.format(room=str(Path(__file__).resolve().parent.parent.parent))
    return [sys.executable, "-c", start, "run", *options, *words, *target.args]


def _run_bounded(
    line: list[str], folder: Path, limits: Limits, watch: Watch | None, backups: Backups
) -> Finished:
    """Run this command, and say what became of it; what it writes lies in the ``folder``."""
    backups.prepare(folder)
    earlier, before = descendants(), blocks()
    held, memory = HeldResources(), MemoryWatch()
    began_s = time.monotonic()
    child: subprocess.Popen[bytes] | None = None
    with adopting(), unwinding():
        try:
            try:
                prepare = child_setup()
                with deferred(), open(folder / LOG, "ab") as log:
                    child = subprocess.Popen(
                        line,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        preexec_fn=prepare,
                        env={**os.environ, "BDOC_KEEP": str(folder)},
                    )
                ended = _await_end(child, folder, limits, watch, memory, earlier, held)
            finally:
                with deferred():
                    if child is not None:
                        end_all(child, earlier, held)
                        remove_blocks(before, held)
        except KeyboardInterrupt:
            ended = "interrupted", "interrupted"
    try:
        profile = read_profile(folder / PROFILE)
    except BadProfile:
        profile = None
    if ended is None:
        status = child.returncode if child is not None else 0
        ended = outcome_of(status, tail(folder / LOG), memory.was_short(), profile is not None)
    return Finished(*ended, profile, time.monotonic() - began_s, memory.peak_bytes)


def _await_end(
    child: subprocess.Popen[bytes],
    folder: Path,
    limits: Limits,
    watch: Watch | None,
    memory: MemoryWatch,
    earlier: list[psutil.Process],
    held: HeldResources,
) -> tuple[str, str] | None:
    """Wait until the run ends by itself: None; or must be ended: the outcome, and why. ``held`` notes what
    its processes have."""

    def training() -> list[psutil.Process]:
        found = descendants(earlier)
        held.note(one.pid for one in found)
        return [one for one in found if one.pid != child.pid]  # the child is bdoc's own supervisor

    detector = HangDetector(folder, limits)
    began_s, looked_s = time.monotonic(), 0.0
    with doorbell(child.pid, ()) as sleep:
        while child.poll() is None:
            now_s = time.monotonic()
            if now_s - looked_s >= PROGRESS_S:
                looked_s = now_s
                keep_short(folder / LOG)
                if hang := detector.look(time.monotonic_ns()):
                    return "hung", hang
                if watch is not None:
                    watch(now_s - began_s)
            if now_s - began_s > limits.seconds:
                return "hung", f"not over after {limits.seconds:.0f} s"
            if scarce := memory.look(training, now_s):
                return "out-of-memory", scarce
            sleep(POLL_S)
    return None


def tail(log: Path) -> list[str]:
    """The last lines of a log that are not empty; none when it cannot be read."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]


def keep_short(log: Path) -> None:
    """Empty a log that has grown too long; its writers append."""
    with suppress(OSError):
        if os.stat(log).st_size > LOG_BYTES_AT_MOST:
            os.truncate(log, 0)


@contextmanager
def trial_folder(put_back: Callable[[Path], bool]) -> Iterator[Path]:
    """A private folder for the time of the block; raises UsageError where none can be made.

    Its name says which process made it: what a killed bdoc left is removed by the next one. ``put_back`` is
    called before such a folder is removed, and says whether it may be: it may list files of the user's.
    """
    for parent in [one for one in usual_places() if one != os.curdir]:
        for found in Path(parent).glob(PREFIX + "*"):
            if _is_left_behind(found) and put_back(found):
                shutil.rmtree(found, ignore_errors=True)
    for found in Path().resolve().glob(HIDDEN + "*"):
        if _is_left_behind(found):
            put_back(found)
    with deferred():
        made = _made()
    try:
        yield made
    finally:
        with deferred():
            if put_back(made):
                shutil.rmtree(made, ignore_errors=True)


def _made() -> Path:
    own = run_registry.lifetime(os.getpid()) or Lifetime(os.getpid(), 0)
    refusals = []
    for parent in usual_places():
        try:
            prefix = f"{PREFIX}{own.pid}-{own.began}-"
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=os.path.abspath(parent)))
            (made / WHERE).write_text(run_registry.machine_here(), encoding="utf-8")
            return made
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror or error}")
    raise UsageError(f"no place to keep trials in ({'; '.join(refusals)}); set TMPDIR to a writable folder")


def _is_left_behind(folder: Path) -> bool:
    """Whether this user made it on this machine and in this container, and the process has ended."""
    pid, began = (*folder.name.split("-")[2:4], "", "")[:2]
    try:
        own = not folder.is_symlink() and os.lstat(folder).st_uid == os.getuid()
        here = own and (folder / WHERE).read_text(encoding="utf-8") == run_registry.machine_here()
    except (OSError, ValueError):
        return False
    known = here and pid.isdigit() and began.isdigit()
    return known and not run_registry.lives(Lifetime(int(pid), int(began)))
