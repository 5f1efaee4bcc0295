"""Follow a running job from another terminal.

\b
bdoc watch            the run that goes on
bdoc watch 4242       by the pid of bdoc, or of any process below it
bdoc watch train.py   by a part of its command line, or by its run folder

Shown are the pace and the machine in the last ten seconds, and the verdict so far: what `bdoc report` would
say if the run ended now. The diagnosis runs at idle CPU priority.

Ctrl-C leaves and never touches the job. Exit status: 0 when the run has ended, however it did, 2 when there
is nothing to watch or several runs to choose from, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..model.errors import UsageError
from .options import positive
from .output import complain, screen

if TYPE_CHECKING:
    from ..launch.run_registry import Running
    from ..model.run import LiveView
    from .watching import Follower

EVERY_S = 1.0  # on a terminal
LOG_EVERY_S = 5.0
LONGEST_PAUSE_S = 1.0  # the supervisor forgets whoever does not look for five
ONE_LOOK_S = 20.0  # in which a single look waits for a verdict
NOTHING = "nothing is running: start `bdoc run train.py` in another terminal"


def main(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A pid, a run folder, or a part of the command line.",
            show_default="the only run",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a run to begin.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Take one look and leave.")] = False,
    every: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds between looks.", show_default="1, for a log 5")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> int:
    """Follow a running job from another terminal."""
    from ..launch.signals import unwinding
    from .watching import Follower, step_back

    if every is not None:
        positive(every, "--every")
    chosen = _choose(run, wait)
    if chosen is None:
        return 2
    step_back()
    follower = Follower(chosen)
    try:
        with unwinding():
            _follow(follower, once, every, as_json)
    except BrokenPipeError:  # `bdoc watch | head -1` is fine; Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        follower.close()
    return 0


def _choose(wanted: str | None, wait: bool) -> Running | None:
    """The run that is meant; None after a list of several."""
    from ..launch.run_registry import find_runs, matching
    from ..render.watch import listed

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
        if not wait:
            raise UsageError(_nothing(wanted, runs, found))
        time.sleep(0.5)


def _nothing(wanted: str | None, runs: list[Running], found: list[Running]) -> str:
    """Why there is nothing to watch."""
    from ..render.watch import shown_command

    dead = found[-1] if found else None
    if dead is not None:
        pid, shown = dead.announcement.supervisor.pid, shown_command(dead.announcement)
        return f"nothing is running: bdoc (pid {pid}) of `{shown}` was killed, and left {dead.folder}"
    if wanted is not None and any(not run.orphaned for run in runs):
        return f"no run matches {wanted!r}: `bdoc watch` without a name lists them"
    return NOTHING


def _follow(follower: Follower, once: bool, every: float | None, as_json: bool) -> None:
    if once:
        _once(follower, as_json)
    elif as_json or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        _log(follower, every or LOG_EVERY_S, as_json)
    else:
        _live(follower, every or EVERY_S)


def _once(follower: Follower, as_json: bool) -> None:
    """One look, as soon as the supervisor has answered and the verdict is there."""
    from ..render.watch import block, record

    until = time.monotonic() + ONE_LOOK_S
    look = follower.look()
    while not follower.informed and time.monotonic() < until and not _over(look):
        time.sleep(0.25)
        look = follower.look()
    shown = screen(sys.stdout)
    text = block(look, follower.report, shown.width, shown.color, shown.encoding)
    _write(record(look, follower.report) if as_json else text, shown.encoding)


def _log(follower: Follower, every_s: float, as_json: bool) -> None:
    from ..render.watch import plain_line, record

    encoding = screen(sys.stdout).encoding
    due = 0.0
    while True:
        look = follower.look()
        if time.monotonic() >= due or _over(look):
            due = time.monotonic() + every_s
            report = follower.report
            _write(record(look, report) if as_json else plain_line(look, report, encoding), encoding)
        if _over(look):
            return
        time.sleep(max(0.0, min(LONGEST_PAUSE_S, due - time.monotonic())))


def _live(follower: Follower, every_s: float) -> None:
    from ..render.watch import LiveBlock, block

    with LiveBlock(sys.stdout, screen(sys.stdout).color) as live:
        due = 0.0
        while True:
            look = follower.look()
            shown = screen(sys.stdout)
            if time.monotonic() >= due or _over(look):
                due = time.monotonic() + every_s
                live.show(block(look, follower.report, shown.width, shown.color, shown.encoding))
            if _over(look):
                return
            time.sleep(max(0.0, min(LONGEST_PAUSE_S, due - time.monotonic())))


def _over(look: LiveView) -> bool:
    from .watching import OVER

    return look.state in OVER


def _write(text: str, encoding: str) -> None:
    sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
    sys.stdout.buffer.flush()
