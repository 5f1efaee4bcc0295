"""Look at a training that runs already and was started without bdoc.

\b
bdoc attach 4242              for a minute, by stack samples and the kernel's counters
bdoc attach 4242 --seconds 20

PID is the training, or what started it. It is never paused, and nothing is loaded into it: steps are not
timed and remedies not predicted. Needs the right to read another process's memory (ptrace), as py-spy does.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..model.errors import UsageError
from .cli import declared
from .options import FORMAT, OUTPUT, positive, read_settings
from .output import complain, say, screen, with_folder, write

if TYPE_CHECKING:
    from ..model.instruments import Stack
    from ..model.profile import Profile
    from .session import Session

HOOKS = "steps, waits, operators and predictions"
FIRST_LOOK_S = 0.5


def main(
    pid: Annotated[int, typer.Argument(metavar="PID", help="The training's process, or its launcher's.")],
    seconds: Annotated[float, typer.Option(metavar="S", help="How long to look.")] = 60.0,
    output: Annotated[str | None, declared(OUTPUT)] = None,
    format: Annotated[str | None, declared(FORMAT)] = None,
) -> int:
    """Look at a training that runs already."""
    settings = read_settings()
    shown = settings.of(FORMAT, format)
    positive(seconds, "--seconds")
    path = with_folder(settings.of(OUTPUT, output), "--output")
    _require_sight(pid)
    profile = looked_at(pid, seconds)
    from ..findings.report import write_up
    from ..model.codec import encode_profile
    from ..render import render

    write(path, encode_profile(profile), private=True)
    out = screen(sys.stdout)
    say(render(write_up(profile), shown, **vars(out)), out.encoding)
    settings.tell()
    if shown == "terminal":
        complain(f"profile in {path}; `bdoc report {path}` shows this again")
    return 0


def _require_sight(pid: int) -> None:
    """Refuse a process that does not exist or may not be sampled, with what would allow it."""
    from ..sense.pyspy import KINDS, StackWindow

    if pid <= 0 or not os.path.exists(f"/proc/{pid}"):
        raise UsageError(f"no process {pid} runs here")
    look = StackWindow([pid], FIRST_LOOK_S, 20, KINDS["every"])
    while not look.is_over():
        time.sleep(0.05)
    if not look.by_target.get(pid) and look.gaps:
        gap = look.gaps[0]
        raise UsageError(f"process {pid} cannot be sampled: {gap.why}{'; ' if gap.do else ''}{gap.do}")


def looked_at(pid: int, seconds: float) -> Profile:
    """The profile of so many seconds of a running job; it ends earlier with the job, or on Ctrl-C."""
    from ..assemble.profile import Remains, assemble
    from ..launch.masking import mask
    from ..model.run import Gap, Process, Progress
    from ..sense.schedule import Windows
    from ..sense.sensors import Sensors

    session, origin_ns = _session(pid), time.monotonic_ns()
    trainers, workers = {pid}, set[int]()
    windows = Windows(profiler=False, py_spy=True, ask_for_profile=lambda _: None)
    sensors = Sensors(pid, lambda: [(one, one) for one in workers], lambda: [(one, one) for one in trainers])
    session.windows, session.sensors = windows, sensors
    session.gaps.append(Gap(HOOKS, "the training was started without bdoc", "start it with `bdoc run`"))
    progress, windows_seen = [Progress(pid, 1, 0, 0, origin_ns, origin_ns)], 0
    try:
        while (now := time.monotonic_ns()) < origin_ns + seconds * 1e9 and os.path.exists(f"/proc/{pid}"):
            pause = sensors.tick(now)
            windows.look(progress, now, origin_ns, sensors.processes)
            if len(windows.windows) > windows_seen:
                windows_seen = len(windows.windows)
                trainers, workers = _told_apart(windows.stacks, pid)
            time.sleep(min(max(pause, 0.005), 0.25))
    except KeyboardInterrupt:
        pass  # what was seen until now is reported
    end_ns = time.monotonic_ns()
    windows.close(end_ns, origin_ns)
    sensors.close()
    seen = session.snapshot((end_ns - origin_ns) / 1e9, pid=pid, attached=True)
    trainers, workers = _told_apart(windows.stacks, pid)
    roles = {**dict.fromkeys(sorted(trainers), "trainer"), **dict.fromkeys(sorted(workers), "worker")}
    processes = [Process(one, pid if one != pid else 0, role, 0.0) for one, role in roles.items()]
    return assemble(Remains(**vars(seen), mask=mask, processes=processes))


def _session(pid: int) -> Session:
    """Of a training that has no agent, hence no run folder."""
    from pathlib import Path

    from ..sense.files import read_text
    from .run_options import Form, Options
    from .session import Session

    words = (read_text(Path(f"/proc/{pid}/cmdline")) or "").rstrip("\0").split("\0")
    script = next((word for word in words[1:] if word.endswith(".py")), None)
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        cwd = "/"
    return Session(Options(Form(script), {}), None, command=words, script=script, cwd=cwd)


def _told_apart(stacks: list[Stack], pid: int) -> tuple[set[int], set[int]]:
    """Processes that were seen in torch and are no loader's workers, and those that are."""
    from ..assemble.profile import read_stacks

    placed = read_stacks(stacks, [])
    workers = {one.pid for one in placed if one.role == "worker"}
    inside = {one.pid for one in placed if any("/torch/" in frame for frame in one.frames)}
    return inside - workers or {pid}, workers
