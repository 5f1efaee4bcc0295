"""A running job as a block on a terminal, or as one plain line for a log."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from statistics import fmean
from types import TracebackType
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.live import Live
from rich.text import Text

from ..model.report import Remedy, Report
from ..model.run import SCHEMA, SCHEMA_VERSION, Announcement, LiveView, PacePoint
from . import words
from .compose import best_of, place
from .glossary import BOUNDS
from .terminal import COLOURS, Sheet, console

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], columns: int, top: float | None = None) -> str:
    """The newest at the right, each column the mean of as many values as it takes; a blank where nothing
    was measured. The tallest bar is ``top``, or the largest of them."""
    if columns < 1 or not values:
        return ""
    every = -(-len(values) // columns)
    begin = len(values) % every
    groups = [values[:begin], *(values[at : at + every] for at in range(begin, len(values), every))]
    means = [_mean(group) for group in groups if group]
    highest = max((mean for mean in means if mean is not None), default=0.0) if top is None else top
    return "".join(_bar(mean, highest) for mean in means)[-columns:]


def can_draw(encoding: str) -> bool:
    """Whether the bars can be said in this encoding."""
    try:
        BARS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _mean(group: Sequence[float | None]) -> float | None:
    known = [value for value in group if value is not None]
    return fmean(known) if known else None


def _bar(value: float | None, highest: float) -> str:
    if value is None:
        return " "
    share = value / highest if highest > 0 else 0.0
    return BARS[min(len(BARS) - 1, max(0, int(share * len(BARS))))]


class LiveBlock:
    """Draws over what it drew last; what stands above it, and the last state, stay on the screen."""

    def __init__(self, stream: TextIO, color: bool) -> None:
        self._console = console(stream, color, force=True)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveBlock:
        self._live.start()
        self._console.show_cursor(True)  # whoever stops us with Ctrl-Z keeps a cursor
        return self

    def show(self, text: str) -> None:
        """Replace what is shown; the text may hold ANSI colours."""
        self._live.update(Text.from_ansi(text.rstrip("\n"), no_wrap=True, overflow="crop"), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


LABEL = 11
FIGURE = 25
NARROW = 56  # columns, below which no history is drawn
LONGEST_COMMAND = 40
GPUS_AT_MOST = 4
RESOURCES = {"cpu": "CPU", "io": "I/O", "memory": "memory"}
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
        return "no verdict yet: the diagnosis runs at idle CPU priority"
    if 0 < look.steps < look.enough_steps:
        return f"{TOO_EARLY}: {words.count(look.steps)} of {words.counted(look.enough_steps, 'step')}"
    return TOO_EARLY


def record(look: LiveView, report: Report | None) -> str:
    """One JSON object on one line, unrounded: the keys of the report's metrics, null when not measured."""
    around, best = look.around, best_of(report)
    busy = around.gpu_busy
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "state": look.state,
        "pid": look.announcement.supervisor.pid,
        "command": look.announcement.command,
        "elapsed_s": look.elapsed_s,
        "steps": look.steps,
        "trained_steps": look.trained,
        "ranks": look.ranks,
        "step_time_s": look.now.step_s,
        "steps_per_s": 1 / look.now.step_s if look.now.step_s else None,
        "data_wait_fraction": look.now.wait_share,
        "cores": around.cores,
        "job_cores": around.job_cores,
        "foreign_cores": around.foreign_cores,
        "cpu_busy_fraction": _share_of(around.job_cores, around.cores),
        "gpu_busy_fraction": sum(busy) / len(busy) if busy else None,
        "gpu_memory_fraction": max(around.gpu_memory, default=None),
        "pressure": around.pressure,
        "verdict": _verdict_record(report),
        "remedy": _remedy_record(best) if best is not None else None,
        "exit_status": look.ending.exit_status if look.ending else None,
        "profile": look.profile,
    }
    return json.dumps(values) + "\n"


def _share_of(part: float | None, whole: float | None) -> float | None:
    return min(1.0, part / whole) if part is not None and whole else None


def _verdict_record(report: Report | None) -> dict[str, Any] | None:
    if report is None:
        return None
    verdict = report.verdict
    return {
        "bound": verdict.bound,
        "cause": verdict.cause,
        "summary": verdict.summary,
        "confidence": verdict.confidence,
        "steady_steps": report.quality.steady_steps,
    }


def _remedy_record(best: Remedy) -> dict[str, Any]:
    speedup = best.predicted_speedup
    return {
        "id": best.id,
        "title": best.title,
        "predicted_speedup": {"low": speedup.low, "likely": speedup.likely, "high": speedup.high},
    }
