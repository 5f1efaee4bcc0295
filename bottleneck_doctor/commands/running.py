"""The commands that look at a job that is running: ``bdoc watch``, and ``bdoc attach``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..model.errors import UsageError
from .cli import declared
from .options import FORMAT, OUTPUT, positive, read_settings
from .output import complain, say, screen, with_folder, write

if TYPE_CHECKING:
    from ..launch.run_registry import Running
    from ..model.instruments import Stack
    from ..model.profile import Profile
    from .session import Session
    from .watcher import Watcher


EVERY_S = 2.0  # on a terminal
LOG_EVERY_S = 5.0
ONCE_S = 20.0  # in which `--once` waits for a report
PAUSE_S = 0.25  # between two checks whether the run has ended
OVER = ("ended", "killed")
NICE = 10  # nice 19 or the idle class took minutes where every core was busy
NOTHING = "nothing is running: start `bdoc run train.py` in another terminal"


def watch_command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A pid, a run folder, or a part of the command line.",
            show_default="the only run",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a run to begin.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one report and leave.")] = False,
    every: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds between lines.", show_default="2, for a log 5")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> int:
    """Follow a running job from another terminal.

    \b
    bdoc watch            the run that goes on
    bdoc watch 4242       by the pid of bdoc, or of any process below it
    bdoc watch train.py   by a part of its command line, or by its run folder

    Shown are the pace of the last seconds and the report so far: what `bdoc report` would say if the run
    ended now. The diagnosis runs in this process, at low CPU priority.

    Ctrl-C leaves and never touches the job. Exit status: 0 when the run has ended, however it did, 2 when
    there is nothing to watch or several runs to choose from, 130 after Ctrl-C.
    """
    if every is not None:
        positive(every, "--every")
    chosen = _choose(run, wait)
    if chosen is None:
        return 2
    with suppress(OSError):
        os.nice(NICE)
    with suppress(OSError):  # the first that the kernel ends when memory runs short
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    from .watcher import Watcher

    watcher = Watcher(chosen)
    try:
        if once:
            _show_once(watcher, as_json)
        else:
            _follow(watcher, every, as_json)
    except BrokenPipeError:  # `bdoc watch | head -1` is fine; Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _choose(wanted: str | None, wait: bool) -> Running | None:
    """The run that is meant; None after a list of several."""
    from ..launch.run_registry import find_runs, matching
    from ..render.watch import listed, shown_command

    while True:
        runs = find_runs()
        found = matching(runs, wanted) if wanted is not None else runs
        alive = [run for run in found if not run.orphaned]
        if len(alive) == 1:
            return alive[0]
        if alive:
            first = alive[0].announcement.supervisor.pid
            complain(f"{len(alive)} runs go on: name one, as in `bdoc watch {first}`")
            for run in alive:
                complain(listed(run.announcement, (time.monotonic_ns() - run.announcement.origin_ns) / 1e9))
            return None
        if wait:
            time.sleep(0.5)
        elif found:
            dead = found[-1].announcement
            killed = f"bdoc (pid {dead.supervisor.pid}) of `{shown_command(dead)}` was killed"
            raise UsageError(f"nothing is running: {killed}, and left {found[-1].folder}")
        elif wanted is not None and any(not run.orphaned for run in runs):
            raise UsageError(f"no run matches {wanted!r}: `bdoc watch` without a name lists them")
        else:
            raise UsageError(NOTHING)


def _show_once(watcher: Watcher, as_json: bool) -> None:
    from ..render.watch import record, whole

    until = time.monotonic() + ONCE_S
    view = watcher.look()
    while not (watcher.report or view.note or view.state in OVER) and time.monotonic() < until:
        time.sleep(PAUSE_S)
        view = watcher.look()
    shown = screen(sys.stdout)
    drawn = record if as_json else whole
    say(drawn(view, watcher.report, **vars(shown)), shown.encoding)


def _follow(watcher: Watcher, every: float | None, as_json: bool) -> None:
    from ..render.watch import plain_line, record, short

    live = not as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    drawn = short if live else record if as_json else plain_line
    every_s = every or (EVERY_S if live else LOG_EVERY_S)
    due = 0.0
    while True:
        if time.monotonic() >= due or watcher.is_over():
            view = watcher.look()
            if time.monotonic() >= due or view.state in OVER:
                due = time.monotonic() + every_s
                shown = screen(sys.stdout)
                text = drawn(view, watcher.report, **vars(shown))
                if live:
                    rows = shutil.get_terminal_size().lines - 1
                    text = "\x1b[H\x1b[2J" + "\n".join(text.splitlines()[:rows]) + "\n"
                sys.stdout.buffer.write(text.encode(shown.encoding, "backslashreplace"))
                sys.stdout.buffer.flush()
            if view.state in OVER:
                return
        time.sleep(max(0.0, min(PAUSE_S, due - time.monotonic())))


HOOKS = "steps, waits, operators and predictions"
FIRST_LOOK_S = 0.5


def attach_command(
    pid: Annotated[int, typer.Argument(metavar="PID", help="The training's process, or its launcher's.")],
    seconds: Annotated[float, typer.Option(metavar="S", help="How long to look.")] = 60.0,
    output: Annotated[str | None, declared(OUTPUT)] = None,
    format: Annotated[str | None, declared(FORMAT)] = None,
) -> int:
    """Look at a training that runs already and was started without bdoc.

    \b
    bdoc attach 4242              for a minute, by stack samples and the kernel's counters
    bdoc attach 4242 --seconds 20

    PID is the training, or what started it. It is never paused, and nothing is loaded into it: steps are not
    timed and remedies not predicted. Needs the right to read another process's memory (ptrace), as py-spy
    does.
    """
    settings = read_settings()
    shown = settings.of(FORMAT, format)
    positive(seconds, "--seconds")
    path = with_folder(settings.of(OUTPUT, output), "--output")
    _require_sight(pid)
    profile = looked_at(pid, seconds)
    from ..findings.report import write_up
    from ..model.codec import encode_profile
    from ..render.ends import shown as shown_with

    write(path, encode_profile(profile), private=True)
    out = screen(sys.stdout)
    say(shown_with(write_up(profile), shown, path, vars(out)), out.encoding)
    settings.tell()
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
