"""Carries out one trial: a ``bdoc run`` of the training with an order for its agents, bounded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from ..launch import run_registry
from ..launch.folder import usual_places
from ..launch.run_registry import lives
from ..launch.signals import deferred, doorbell, unwinding
from ..model.codec import encode_order, read_profile
from ..model.errors import BadProfile, UsageError
from ..model.profile import Profile
from ..model.run import Lifetime, Order
from . import trial_processes
from .endings import HangDetector, RunEnd, outcome_of
from .limits import Limits, Memory
from .restore import HIDDEN, LIST, WHERE, Backups
from .trial_processes import HeldResources, Pause, blocks, pausable, remove_blocks, remove_folders

PREFIX = ".bdoc-prove-"
TAIL_BYTES = 65536
LOG_BYTES_AT_MOST = 16 << 20


@contextmanager
def trial_folder(put_back: Callable[[Path], bool]) -> Iterator[Path]:
    """A private folder for the time of the block; raises UsageError where none can be made.

    Its name says whose it is, so that what a killed bdoc left is told from what is in use. ``put_back`` is
    called before such a folder is removed, and says whether it may be: it may list files of the user's.
    """
    _sweep(put_back)
    with deferred():
        made = _made()
    try:
        yield made
    finally:
        with deferred():
            if put_back(made):
                shutil.rmtree(made, ignore_errors=True)


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
    try:
        if os.stat(log).st_size > LOG_BYTES_AT_MOST:
            os.truncate(log, 0)
    except OSError:
        pass


def keep_only(folder: Path, *names: str) -> None:
    """Forget the trial that was carried out here, but for some files."""
    for path in [one for one in folder.iterdir() if one.name not in (*names, WHERE)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _made() -> Path:
    ours = run_registry.lifetime(os.getpid()) or Lifetime(os.getpid(), 0)
    refusals = []
    for parent in usual_places():
        try:
            prefix = f"{PREFIX}{ours.pid}-{ours.began}-"
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=os.path.abspath(parent)))
            (made / WHERE).write_text(run_registry.machine_here(), encoding="utf-8")
            return made
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror or error}")
    raise UsageError(f"no place to keep trials in ({'; '.join(refusals)}); set TMPDIR to a writable folder")


def _sweep(put_back: Callable[[Path], bool]) -> None:
    """Remove what killed ones left where such folders lie by themselves."""
    for parent in [one for one in usual_places() if one != os.curdir]:
        for found in Path(parent).glob(PREFIX + "*"):
            if _is_left_behind(found) and put_back(found):
                shutil.rmtree(found, ignore_errors=True)
    for found in Path().resolve().glob(HIDDEN + "*"):
        if _is_left_behind(found):
            put_back(found)


def _is_left_behind(folder: Path) -> bool:
    """Whether it is this user's, of this machine and container, and its owner is dead."""
    pid, began = (*folder.name.split("-")[2:4], "", "")[:2]
    try:
        ours = not folder.is_symlink() and os.lstat(folder).st_uid == os.getuid()
        here = ours and (folder / WHERE).read_text(encoding="utf-8") == run_registry.machine_here()
    except (OSError, ValueError):
        return False
    return here and pid.isdigit() and began.isdigit() and not lives(Lifetime(int(pid), int(began)))


ORDER, LOG, PROFILE = "order.json", "log", "profile.json"  # in the trial's folder
LOOK_EVERY_S = 0.2  # memory can be gone within a second
PROGRESS_EVERY_S = 0.5

Watch = Callable[[float], None]


@dataclass(frozen=True)
class Leftovers:
    """What a trial had left behind and we removed: processes ended, by pid, blocks of shared memory, by name,
    and paths of ``folders`` of sockets. ``unkillable`` are pids that outlived SIGKILL."""

    processes: tuple[int, ...] = ()
    blocks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    unkillable: tuple[int, ...] = ()


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


def run_bounded(
    line: list[str], folder: Path, limits: Limits, watch: Watch | None, backups: Backups
) -> Finished:
    """Run this command, and say what became of it; what it writes lies in the ``folder``. After Ctrl-Z the
    machine is free until we are continued, the user's files are back, and the trial begins anew."""
    with pausable() as pause:
        while True:
            backups.prepare(folder)
            found = _Trial(line, folder, limits, watch, pause).run()
            if found is not None:
                return found
            backups.put_back(folder)
            pause.take()
            keep_only(folder, ORDER, LIST)


class _Trial:
    """One trial, from what was there before it to what it was seen to hold."""

    def __init__(
        self, line: list[str], folder: Path, limits: Limits, watch: Watch | None, pause: Pause
    ) -> None:
        self.line, self.folder, self.limits, self.watch, self.pause = line, folder, limits, watch, pause
        self.earlier, self.blocks = trial_processes.descendants(), blocks()
        self.resources, self.memory = HeldResources(), Memory(limits.memory_bytes)
        self.child: subprocess.Popen[bytes] | None = None

    def run(self) -> Finished | None:
        """From start to end; None where it was paused."""
        seen, left, began_s = RunEnd(), Leftovers(), time.monotonic()
        with trial_processes.adopting(), unwinding():
            try:
                try:
                    prepare = trial_processes.child_setup()
                    with deferred():
                        self.child = self._started(prepare)
                    seen = self._awaited(self.child)
                finally:
                    with deferred():
                        left = self._cleared(self.child) if self.child is not None else left
            except KeyboardInterrupt:
                seen = replace(seen, interrupted=True)
        if self.pause.is_wanted and not seen.interrupted:
            return None
        seen = replace(seen, short_of_memory=self.memory.was_short(), lines=tail(self.folder / LOG))
        profile = _profile(self.folder)
        outcome, why = outcome_of(seen, profile)
        return Finished(outcome, why, profile, time.monotonic() - began_s, self.memory.peak_bytes, left)

    def _started(self, prepare: Callable[[], None]) -> subprocess.Popen[bytes]:
        with open(self.folder / LOG, "ab") as log:
            return subprocess.Popen(
                self.line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,
                env={**os.environ, "BDOC_KEEP": str(self.folder)},
            )

    def _awaited(self, child: subprocess.Popen[bytes]) -> RunEnd:
        """Look now and then until the run ends, or must be ended."""
        detector = HangDetector(self.folder, self.limits)
        began_s, told_s = time.monotonic(), 0.0
        with doorbell(child.pid, ()) as sleep:
            while (status := child.poll()) is None and not self.pause.is_wanted:
                now_s = time.monotonic()
                if now_s - told_s >= PROGRESS_EVERY_S:
                    told_s = now_s
                    keep_short(self.folder / LOG)
                    if hang := detector.look(time.monotonic_ns()):
                        return RunEnd(hang=hang)
                    if self.watch is not None:
                        self.watch(now_s - began_s)
                if now_s - began_s > self.limits.seconds:
                    return RunEnd(hang=f"not over after {self.limits.seconds:.0f} s")
                if scarce := self.memory.look(self._training, now_s):
                    return RunEnd(scarce=scarce)
                sleep(LOOK_EVERY_S)
        return RunEnd(status)

    def _training(self) -> list[psutil.Process]:
        """The training's processes, bdoc's own left out; what they hold is noted."""
        found = trial_processes.descendants(self.earlier)
        self.resources.note(one.pid for one in found)
        return [one for one in found if self.child is None or one.pid != self.child.pid]

    def _cleared(self, child: subprocess.Popen[bytes]) -> Leftovers:
        """End whatever still runs, and remove what the dead cannot."""

        def living() -> list[psutil.Process]:
            child.poll()  # collects it, so that it is no zombie to the others
            return trial_processes.descendants(self.earlier)

        over = child.poll() is not None
        if over:
            trial_processes.await_orderly_end(living)
        found = trial_processes.reap(living())
        self.resources.note(one.pid for one in found)
        unkillable = trial_processes.end(living, child.pid) if living() else []
        child.poll()
        return Leftovers(
            processes=tuple(one.pid for one in found) if over else (),  # whom we ended in the midst is none
            blocks=tuple(remove_blocks(self.blocks, self.resources)),
            folders=tuple(remove_folders(self.resources)),
            unkillable=tuple(unkillable),
        )


def _profile(folder: Path) -> Profile | None:
    try:
        return read_profile(folder / PROFILE)
    except BadProfile:
        return None


ROOM = Path(__file__).resolve().parent.parent.parent

# As `python -m` would start us, without the folder that the user stands in: a `queue.py` there is not ours.
START = "import sys; sys.path = [*filter(None, sys.path), {room!r}]; import runpy; "
START += "runpy.run_module('bottleneck_doctor', run_name='__main__', alter_sys=True)"


@dataclass(frozen=True)
class Target:
    """What is run, as ``bdoc run`` was asked: a script, a module, or a launcher, and the words behind it."""

    script: str | None = None
    module: str | None = None
    launcher: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    python: str | None = None
    data_fn: tuple[str, ...] = ()


def run_trial(
    target: Target,
    order: Order,
    limits: Limits,
    *,
    watch: Watch | None = None,
    backups: Backups | None = None,
) -> Finished:
    """Run the target with the order until ``limits.steps`` are trained. ``watch`` is called now and then with
    the seconds since the start; ``backups`` is that of the command.

    Nothing of the trial is left when this returns, or raises: no process, no shared memory, no folder; and
    files that were there before it are as they were. Raises UsageError where there is no place for its files.
    """
    backups = backups or Backups()
    with trial_folder(backups.put_back) as folder:
        file = folder / ORDER
        file.write_bytes(encode_order(order))
        options = ["--no-profiler", "--no-py-spy", "--trial", str(file), "--max-steps", str(limits.steps)]
        return run_bounded(_line(target, folder, options), folder, limits, watch, backups)


def watch_baseline(
    target: Target, limits: Limits, *, watch: Watch | None = None, backups: Backups | None = None
) -> Finished:
    """Run the target with all instruments until its step time is known, ``limits.steps`` at most. Here
    ``limits.seconds`` count from the first batch: how long a start takes is not known yet."""
    backups = backups or Backups()
    with trial_folder(backups.put_back) as folder:
        options = ["--until-steady", "--max-steps", str(limits.steps)]
        whole = replace(limits, seconds=limits.first_batch_s + limits.seconds)
        return run_bounded(_line(target, folder, options), folder, whole, watch, backups)


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
    return [sys.executable, "-c", START.format(room=str(ROOM)), "run", *options, *words, *target.args]
