"""A running job: a line about its pace and the report so far, on a terminal, in a log or as JSON."""

from __future__ import annotations

import json
import shlex
from typing import Any

from ..model.codec import encode_report
from ..model.report import Report
from ..model.run import SCHEMA, SCHEMA_VERSION, Announcement, LiveView
from . import render, words
from .compose import command_line, compose
from .document import Lengths
from .head import best_of, bound_of, head_of
from .terminal import Sheet, terminal

LONGEST_COMMAND = 40
STATES = {
    "starting": "waiting for the first batch",
    "stopped": "stopped: SIGCONT or `fg` continues it",
    "finishing": "the training has ended; bdoc is writing the profile",
}
# So much of the report as fits on a terminal.
SHORT = Lengths(findings=1, points=1, bars=5, remedies=2, snippets=0, gaps=1, functions=0, operators=0)


def short(view: LiveView, report: Report | None, width: int, color: bool, encoding: str) -> str:
    """The terminal's view: the pace, the main part of the report, and the ending."""
    drawn = terminal(compose(report, SHORT), width, color, encoding) if report is not None else ""
    return "\n".join(filter(None, [_head(view, width, color, encoding), drawn, closing(view)])) + "\n"


def whole(view: LiveView, report: Report | None, width: int, color: bool, encoding: str) -> str:
    """The pace, and the report as `bdoc report` prints it."""
    drawn = render(report, "terminal", width=width, color=color, encoding=encoding) if report else ""
    return _head(view, width, color, encoding) + drawn


def plain_line(view: LiveView, report: Report | None, width: int, color: bool, encoding: str) -> str:
    """One line for a log."""
    parts = [words.seconds(view.elapsed_s), *_pace(view)]
    if report is not None:
        parts.append(f"{bound_of(report)} so far: {head_of(report).claim}")
    if report is not None and (best := best_of(report)) is not None:
        parts.append(f"best so far: {words.plain(best.title)} {words.promised(best.predicted_speedup)}")
    parts.append(closing(view) if view.ending or view.state == "killed" else "")
    return words.fit(" · ".join(filter(None, parts)), encoding) + "\n"


def record(view: LiveView, report: Report | None, width: int, color: bool, encoding: str) -> str:
    """One JSON object on one line, unrounded; null is what was not measured."""
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "state": view.state,
        "pid": view.announcement.supervisor.pid,
        "command": view.announcement.command,
        "elapsed_s": view.elapsed_s,
        "steps": view.steps,
        "trained_steps": view.trained,
        "ranks": view.ranks,
        "step_time_s": view.step_s,
        "steps_per_s": 1 / view.step_s if view.step_s else None,
        "data_wait_fraction": view.wait_share,
        "report": json.loads(encode_report(report)) if report is not None else None,
        "exit_status": view.ending.exit_status if view.ending else None,
        "profile": view.profile,
    }
    return json.dumps(values) + "\n"


def listed(announcement: Announcement, elapsed_s: float) -> str:
    """One run in a list to choose from."""
    pid, cwd = str(announcement.supervisor.pid), words.plain(announcement.cwd)
    return " · ".join([pid, shown_command(announcement), words.seconds(elapsed_s), cwd])


def shown_command(announcement: Announcement) -> str:
    """What the user typed, from the script on."""
    return command_line(announcement, LONGEST_COMMAND)


def closing(view: LiveView) -> str:
    """The last line: what Ctrl-C does, or how the run ended and where the profile is."""
    if view.state == "killed":
        alive = f"; the training (pid {view.survivor}) goes on unwatched" if view.survivor else ""
        return f"bdoc was killed: there will be no profile{alive}"
    if view.state == "finishing":
        return STATES["finishing"]
    if view.ending is None:
        return "Ctrl-C leaves; the training goes on"
    died = f", killed by signal {view.ending.signal}" if view.ending.signal else ""
    ending = f"ended with status {view.ending.exit_status}{died}"
    if view.ending.stopped_by:
        ending = f"ended by --{words.plain(view.ending.stopped_by)}"
    if view.profile is None:
        return ending
    path = words.plain(view.profile)
    return f"{ending} · profile in {path} · bdoc report {shlex.quote(path)}"


def _head(view: LiveView, width: int, color: bool, encoding: str) -> str:
    sheet = Sheet(width, color, encoding)
    about = f" {shown_command(view.announcement)} · pid {view.announcement.supervisor.pid} · "
    sheet.line(("bdoc watch ·", "bold"), about, (words.seconds(view.elapsed_s), "bold"))
    sheet.line(" · ".join(_pace(view)))
    return sheet.drawn()


def _pace(view: LiveView) -> list[str]:
    """Steps, and the step time and data wait since the view before."""
    texts = []
    if view.steps:
        most = view.announcement.max_steps
        steps = f"{words.count(view.trained)} of {words.counted(most, 'step')}" if most else ""
        texts.append(steps or words.counted(view.steps, "step"))
    if view.ranks > 1:
        texts.append(f"{view.ranks} ranks, the slowest shown")
    if view.step_s is not None:
        texts.append(f"{words.seconds(view.step_s)} each")
    if view.wait_share is not None:
        texts.append(f"{words.percent(view.wait_share)} waiting for data")
    if view.state == "stalled":
        texts.append(f"no new batch for {words.seconds(view.silent_s)}")
    elif view.state in ("starting", "stopped", "finishing"):
        texts.append(STATES[view.state])
    return [*texts, words.plain(view.note)] if view.note else texts
