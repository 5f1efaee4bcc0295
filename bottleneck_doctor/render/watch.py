"""A running job as a block on a terminal, or as one plain line for a log."""

from __future__ import annotations

import shlex

from rich.cells import cell_len, set_cell_size

from ..model.live import Announcement, LiveView, PacePoint
from ..model.report import Remedy, Report
from . import words
from .glossary import BOUNDS
from .hottest import place
from .sheet import Sheet
from .sparkline import can_draw, sparkline

LABEL = 11
FIGURE = 25
NARROW = 56  # columns, below which no history is drawn
LONGEST_COMMAND = 40
GPUS_AT_MOST = 4
RESOURCES = {"cpu": "CPU", "io": "I/O", "memory": "memory"}
COLOURS = {"balanced": "green", "inconclusive": "cyan"}
STATES = {
    "starting": "waiting for the first batch",
    "running": "running",
    "stalled": "no new batch",
    "stopped": "stopped: SIGCONT or `fg` continues it",
    "finishing": "the training has ended; bdoc is writing the profile",
}
TOO_EARLY = "too early to say"
LAST_WORDS = "Ctrl-C leaves; the training goes on"


def block(look: LiveView, report: Report | None, width: int, color: bool, encoding: str) -> str:
    """At most 15 lines on 80 columns; each number is the one that the report would say."""
    sheet = Sheet(width, color, encoding)
    head = f" {shown_command(look.announcement)} · pid {look.announcement.supervisor.pid} · "
    sheet.line(("bdoc watch ·", "bold"), head, (words.seconds(look.elapsed_s), "bold"))
    for label, figure, history, colour in _figures(look, sheet):
        _row(sheet, label, figure, history, colour)
    sheet.heading()
    _verdict(sheet, look, report)
    sheet.line((closing(look), "bold" if look.ending or look.state == "killed" else "dim"))
    return sheet.drawn()


def plain_line(look: LiveView, report: Report | None, encoding: str) -> str:
    """Everything that matters on one line, for a log."""
    parts = [words.seconds(look.elapsed_s), STATES.get(look.state, closing(look)), *_progress(look)]
    if look.now.step_s is not None:
        parts.append(f"{words.seconds(look.now.step_s)} each")
    if look.now.wait_share is not None:
        parts.append(f"{words.percent(look.now.wait_share)} waiting for data")
    parts += [f"{label} {figure}" for label, figure in _machine(look)]
    parts += [_headline(look, report), *_grounds(report)]
    if (best := best_of(report)) is not None:
        parts.append(f"best so far: {words.plain(best.title)} {words.promised(best.predicted_speedup)}")
    return words.fit(" · ".join(part for part in parts if part), encoding) + "\n"


def listed(announcement: Announcement, elapsed_s: float) -> str:
    """One run in a list to choose from."""
    said = (str(announcement.supervisor.pid), shown_command(announcement), words.seconds(elapsed_s))
    return " · ".join([*said, words.plain(announcement.cwd)])


def shown_command(announcement: Announcement) -> str:
    """What the user typed, from the script on."""
    command = announcement.command
    if announcement.script is not None and announcement.script in command:
        command = command[command.index(announcement.script) :]
    return words.short(words.plain(shlex.join(command)), LONGEST_COMMAND)


def best_of(report: Report | None) -> Remedy | None:
    """The first remedy that is expected to help."""
    remedies = report.remedies if report is not None else []
    return next((remedy for remedy in remedies if remedy.predicted_speedup.reach > 1), None)


def closing(look: LiveView) -> str:
    """The last line: what Ctrl-C does, or how it ended and where the profile is."""
    if look.state == "killed":
        alive = f"; the training (pid {look.survivor}) goes on unwatched" if look.survivor else ""
        return f"bdoc was killed: there will be no profile{alive}"
    if look.state != "ended":
        return LAST_WORDS if look.state != "finishing" else STATES["finishing"]
    said = [_ended(look)]
    if look.profile is not None:
        path = words.plain(look.profile)
        said += [f"profile in {path}", f"bdoc report {shlex.quote(path)}"]
    return " · ".join(said)


def _ended(look: LiveView) -> str:
    ending = look.ending
    if ending is None:
        return "ended"
    if ending.stopped_by:
        return f"ended by --{words.plain(ending.stopped_by)}"
    died = f", killed by signal {ending.signal}" if ending.signal else ""
    return f"ended with status {ending.exit_status}{died}"


def _figures(look: LiveView, sheet: Sheet) -> list[tuple[str, str, str, str]]:
    """Label, figure, history and its colour of each row."""
    room = sheet.width - LABEL - FIGURE - 1 if sheet.width >= NARROW and can_draw(sheet.encoding) else 0
    now, history = look.now, look.history
    step = "" if now.step_s is None else f"{words.seconds(now.step_s)}, {_rate(now)}"
    waits = sparkline([one.wait_share for one in history], room, top=1.0)
    times = sparkline([one.step_s for one in history], room)
    rows = [("progress", " · ".join(_progress(look) or [STATES["starting"]]), "", "")]
    if step:
        rows.append(("step time", step, times, "cyan"))
    if now.wait_share is not None:
        rows.append(("data wait", words.percent(now.wait_share), waits, "yellow"))
    rows += [(label, figure, "", "") for label, figure in _machine(look)]
    return rows


def _rate(now: PacePoint) -> str:
    return words.quantity("steps_per_s", 1 / now.step_s) if now.step_s else ""


def _progress(look: LiveView) -> list[str]:
    if not look.steps:
        return []
    most = look.announcement.max_steps
    said = [
        f"{words.count(look.trained)} of {words.counted(most, 'step')}"
        if most
        else words.counted(look.steps, "step")
    ]
    if look.ranks > 1:
        said.append(f"{look.ranks} ranks, the slowest shown")
    if look.state == "stalled":
        said.append(f"no new batch for {words.seconds(look.silent_s)}")
    if look.state == "stopped":
        said.append(STATES["stopped"])
    return said


def _machine(look: LiveView) -> list[tuple[str, str]]:
    around = look.around
    rows = []
    if around.job_cores is not None and around.cores is not None:
        said = f"job {words.count(around.job_cores)} of {words.count(around.cores)} cores"
        if around.foreign_cores is not None:
            said += f" · strangers {words.count(around.foreign_cores)}"
        rows.append(("CPU", said))
    if around.gpu_busy:
        shown = [words.percent(busy) for busy in around.gpu_busy[:GPUS_AT_MOST]]
        more = len(around.gpu_busy) - len(shown)
        full = f" · memory {words.percent(max(around.gpu_memory))}" if around.gpu_memory else ""
        rows.append(("GPU", f"busy {', '.join(shown)}{f' and {more} more' if more else ''}{full}"))
    if around.pressure:
        said = " · ".join(
            f"{RESOURCES[name]} {words.percent(value)}" for name, value in around.pressure.items()
        )
        rows.append(("pressure", said))
    return rows


def _row(sheet: Sheet, label: str, figure: str, history: str, colour: str) -> None:
    figure = words.fit(figure, sheet.encoding)
    if history and cell_len(figure) < FIGURE:
        figure = set_cell_size(figure, FIGURE)
    else:
        history = ""
    sheet.line((set_cell_size(label, LABEL), "dim"), figure, (history, colour))


def _verdict(sheet: Sheet, look: LiveView, report: Report | None) -> None:
    headline = _headline(look, report)
    colour = COLOURS.get(report.verdict.bound if report else "inconclusive", "yellow")
    first, colon, rest = headline.partition(":")
    sheet.line((first + colon, f"bold {colour}"), words.short(rest, 2 * sheet.width - len(first) - 8))
    sheet.line((" · ".join(_grounds(report)), "dim"), indent=2)
    best = best_of(report)
    if report is None or best is None:
        return
    speedup = best.predicted_speedup
    likely = f"  {words.promised(speedup)}"
    span = "" if speedup.likely is None else f" ({words.ratio_range(speedup.low, speedup.high)})"
    title = words.short(words.capital(words.plain(best.title)), 2 * sheet.width - 44)
    sheet.line("best so far: ", (title, "bold"), (likely, "bold green"), (span, "dim"), indent=2)
    where = place(best.fix.location, report.run.cwd)
    sheet.line((where, "cyan"), indent=4)


def _headline(look: LiveView, report: Report | None) -> str:
    """The bound and why; or why there is no saying yet."""
    if look.unjudged:
        return f"no verdict: {words.plain(look.unjudged)}"
    if report is None:
        return _before(look) if look.state not in ("ended", "killed") else ""
    verdict = report.verdict
    if verdict.bound == "inconclusive":
        return f"{TOO_EARLY}: {words.plain(verdict.summary)}"
    return f"{BOUNDS.get(verdict.bound, words.plain(verdict.bound))} so far: {words.plain(verdict.summary)}"


def _grounds(report: Report | None) -> list[str]:
    """The cause by its id, how sure that is, and of how many steps; nothing before there is a verdict."""
    if report is None or report.verdict.bound == "inconclusive":
        return []
    verdict = report.verdict
    cause = [] if verdict.cause == "none" else [words.plain(verdict.cause)]
    steps = words.counted(report.quality.steady_steps, "steady step")
    return [*cause, f"{words.plain(verdict.confidence)} confidence", steps]


def _before(look: LiveView) -> str:
    if look.judging:
        return "no verdict yet: it is made in cycles that nobody else wants"
    if 0 < look.steps < look.enough_steps:
        return f"{TOO_EARLY}: {words.count(look.steps)} of {words.counted(look.enough_steps, 'step')}"
    return TOO_EARLY
