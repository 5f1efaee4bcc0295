"""Carries out ``bdoc run``: start, watch, assemble, report, judge; the script's own status comes first."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from .. import __version__
from ..launch.start import Command, RunFolder, choose, instrumented, is_odd, plan, run_folder, usual_places
from ..launch.supervise import Ended, supervise
from ..model.errors import Refused
from ..sense.files import local_first, tracer
from .options import (
    CPROFILE,
    DATA_FN,
    EXPORT,
    FORMAT,
    KEEP_TRACE,
    NO_PATHS,
    NO_PY_SPY,
    OUTPUT,
    PLACE,
    PYTHON,
    QUIET,
    TRIAL,
)
from .output import complain, screen, with_picture, write
from .run_options import WORDS, Options, conditions
from .session import Session

if TYPE_CHECKING:  # the training waits for what is imported here
    from ..export.send import Destination
    from ..model.profile import Profile
    from ..model.report import Report
    from ..model.run import Order

PACKAGE = Path(__file__).resolve().parent.parent
UNDER_CPROFILE = PACKAGE / "launch" / "under_cprofile.py"
CPROFILE_DRAFT = "cprofile"
CANNOT_SAY = 3
REFUSED = (2, 128 + SIGINT)  # by argparse, or by the user, who saw it train on
TRACES = "*.trace.json"  # as the agent names them, each after the process that wrote it


def of_its_ranks(options: Options, profile: Profile) -> Options:
    """With the usual profile's name made to tell host and first rank, where this run saw a part of the ranks:
    others may write into the same folder."""
    path = options[OUTPUT]
    if os.path.basename(path) != OUTPUT.default or not (part := partly(profile)):
        return options
    stem, dot, suffix = path.rpartition(".")
    host = profile.machine.host.partition(".")[0] or "host"
    return replace(options, values={**options.values, OUTPUT: f"{stem}.{host}.{part[0]}{dot}{suffix}"})


def partly(profile: Profile) -> list[int]:
    """The ranks that this run saw, where there are more; empty where all were seen."""
    trainers = [one for one in profile.processes if one.role == "trainer"]
    seen = sorted({one.rank for one in trainers if one.rank is not None})
    return seen if len(seen) < max((one.world_size or 1 for one in trainers), default=1) else []


def why_not(command: Command, folder: RunFolder) -> str:
    """What keeps the command from being run under cProfile; "" when nothing does."""
    if command.script is None:
        return "what is started is a launcher's command, not a script or a module"
    if command.script == "-":
        return "the script comes from stdin"
    return "" if folder.path is not None else "there is no run folder to write to"


def run_training(options: Options) -> int:
    """Run the training to its end and say what limited it; the exit status of the contract."""
    if sys.stderr is None:  # started with stderr closed, as some daemons start their jobs
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays until we end
    python = choose(options[PYTHON])
    command = started = plan(*options.form, python)
    places = local_first(usual_places())
    place = options[PLACE]
    with run_folder([place, *places] if place else places) as folder:
        missing = [("hooks", folder.reason)] if folder.path is None else []
        draft = ""
        if options[CPROFILE]:
            if refusal := why_not(command, folder):
                missing.append(("cProfile", refusal))
            else:
                draft = os.path.join(folder.path or "", CPROFILE_DRAFT)
                python, *rest = command.argv
                started = replace(command, argv=(python, str(UNDER_CPROFILE), draft, *rest))
        session, ended = _train(options, command, started, folder)
        profile, problem = finished(session, ended, missing)
        if profile is not None:
            options = of_its_ranks(options, profile)
        kept = keep(options, folder, draft)
        excused = session.limit is not None and session.limit.excuses(ended.exit_status)
    return _conclude(options, ended, 0 if excused else ended.exit_status, profile, problem, kept)


def finished(
    session: Session, ended: Ended, missing: list[tuple[str, str]], names: Mapping[str, str] | None = None
) -> tuple[Profile | None, str]:
    """The profile as it is kept, or why there is none. ``names`` are those of code without a file, by its
    path."""
    from ..assemble.profile import assemble
    from ..model.run import Gap

    gaps = [Gap(what, why) for what, why in [*missing, *(("watching", note) for note in ended.notes)]]
    try:
        profile = assemble(session.remains(ended, gaps))
        if names:
            from .hide_paths import renamed

            profile = renamed(profile, names)
        if session.options[NO_PATHS]:
            from .hide_paths import pathless

            profile = pathless(profile)
    except Exception as error:  # an error in bdoc must not change the script's exit status
        return None, f"the profile could not be assembled: {type(error).__name__}: {error}"
    return profile, ""


def keep(options: Options, folder: RunFolder, draft: str) -> list[str]:
    """Save next to the profile what cProfile wrote to ``draft``, and the profiler's trace of each process
    that has one; a sentence about each file. A failure is printed to stderr."""
    stem = os.path.splitext(options[OUTPUT])[0]
    files: list[tuple[str, str, str]] = []  # what is copied, where to, and the sentence about it
    if draft and os.path.exists(draft):
        files.append((draft, f"{stem}.prof", "cProfile's times in {0}; `bdoc view {0}` draws them"))
    elif draft:
        complain("cProfile left nothing: the script was killed, or left by os._exit")
    if options[KEEP_TRACE]:
        traces = sorted(Path(folder.path).glob(TRACES)) if folder.path is not None else []
        for place, trace in enumerate(traces):
            target = f"{stem}.trace{f'.{place}' if place else ''}.json"
            files.append((str(trace), target, "the profiler's trace in {0}; ui.perfetto.dev opens it"))
        if not traces:
            complain(
                "no trace was recorded: the window opens on accelerators only, some seconds after warm-up"
            )
    kept = []
    for source, target, sentence in files:
        try:
            write(target, Path(source).read_bytes(), private=True)
        except (OSError, Refused) as error:
            complain(f"{os.path.basename(target)} is lost: {error}")
        else:
            kept.append(sentence.format(target))
    return kept


def _train(options: Options, command: Command, started: Command, folder: RunFolder) -> tuple[Session, Ended]:
    """From start to end of the training; ``command`` is what was asked for, ``started`` what is run."""
    place = Path(folder.path) if folder.path else None
    session = Session(options, place, command=command.argv, script=command.script)
    session.prepare()
    trial = options[TRIAL]
    environ = {**os.environ, **(_variables(trial.order) if trial is not None else {})}
    if folder.path is not None:
        environ = with_agent(environ, folder.path, options)
    ended = supervise(started, environ, session.tick)
    session.ended(ended)
    return session, ended


def with_agent(environ: Mapping[str, str], folder: str, options: Options) -> dict[str, str]:
    """The environment in which Python processes load the agent."""
    trial = options[TRIAL]
    settings = {
        "keep_trace": 1 if options[KEEP_TRACE] else None,
        "data_fn": ",".join(options[DATA_FN]) or None,
        "tracer": None if options[NO_PY_SPY] else tracer(),
        "trial": trial.path if trial is not None else None,
    }
    return instrumented(environ, folder, str(PACKAGE / "inject"), str(PACKAGE / "agent"), settings)


def _variables(order: Order) -> dict[str, str]:
    """What a trial sets in the environment of the training."""
    from ..model.run import ENVIRONMENT

    named = [one.options for one in order.treatments if one.name == ENVIRONMENT]
    hashing = {} if order.seed is None else {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", order.seed)}
    return {name: str(value) for options in [hashing, *named] for name, value in options.items()}


def _conclude(
    options: Options, ended: Ended, status: int, profile: Profile | None, problem: str, kept: list[str]
) -> int:
    """Write the profile, print the report, judge; whatever fails of this, the script's status holds."""
    judged = CANNOT_SAY if conditions(options) else 0
    if profile is None:
        complain(problem)
        return status or judged
    saved = _save(options, profile)
    try:
        judged = _report(options, profile, ended.ended_ns, saved, kept)
    except Exception as error:
        rest = f"; the profile is in {options[OUTPUT]}" if saved else ""
        complain(f"the report could not be written: {type(error).__name__}: {error}{rest}")
    if options[EXPORT] and not any(partly(profile)[:1]):  # of many runs the first rank's is sent
        export(profile, options[EXPORT], options[QUIET])
    return status or judged


def _save(options: Options, profile: Profile) -> bool:
    from ..model.codec import encode_profile

    try:
        write(options[OUTPUT], encode_profile(profile), private=True)
    except Refused as error:
        complain(str(error))
        return False
    except Exception as error:
        complain(f"the profile could not be written: {type(error).__name__}: {error}")
        return False
    return True


def _report(options: Options, profile: Profile, ended_ns: int, saved: bool, kept: list[str]) -> int:
    """Show the report; the status of the gate. The profile is written again, with the time that this took."""
    wanted, part = conditions(options), partly(profile)
    others = bool(part and part[0]) and not sys.stderr.isatty()  # of many runs the first rank's speaks
    quiet = options[QUIET] or others
    if quiet and not wanted:
        return 0
    from ..analyse.diagnose import around_s
    from ..findings.report import write_up

    report = replace(write_up(profile), bdoc=__version__)
    cost = replace(profile.cost, after_s=(time.monotonic_ns() - ended_ns) / 1e9)
    if saved:
        _save(options, replace(profile, cost=cost))
    overhead = replace(report.quality.overhead, around_s=around_s(cost))
    report = replace(report, quality=replace(report.quality, overhead=overhead))
    if not quiet:
        folder = os.path.dirname(options[OUTPUT]) or "."
        lines = [f"`bdoc merge {folder}` joins the profiles of all ranks"] if saved and part else []
        if not (options[PYTHON] or options.form.launcher) and is_odd(report.run.command[0]):
            lines.append(f"run by {report.run.command[0]}, not by the `python` on PATH")
        _print(options, report, [*lines, *_misplaced(options, report), *kept], saved)
    if not wanted:
        return 0
    from ..analyse.gate import judge
    from ..render.gate import failed_lines, outcome_lines

    outcome = judge(report, wanted)
    for line in [*outcome_lines(outcome), *(failed_lines(outcome, report) if quiet else [])]:
        complain(line)
    return outcome.status


def _misplaced(options: Options, report: Report) -> list[str]:
    """A note on an option of bdoc's among the script's, where it may have been meant for bdoc."""
    args = options.form.args
    ours = {word for word in WORDS if word.startswith("--") and not WORDS[word].hidden}
    at = next((at for at, word in enumerate(args) if word.partition("=")[0] in ours), None)
    asked = report.verdict.bound == "inconclusive" or report.run.exit_status in REFUSED
    if at is None or not asked:
        return []
    alone = "=" in args[at] or WORDS[args[at]].kind is bool
    typed, script = shlex.join(args[at : at + 2 - alone]), options.form.script or options.form.module
    return [f"note: {typed} went to {script}; options of bdoc stand before the script"]


def _print(options: Options, report: Report, lines: list[str], saved: bool) -> None:
    """The report on stderr; for a person, these lines after it."""
    from ..render.ends import shown

    target = screen(sys.stderr)
    text = shown(report, options[FORMAT], options[OUTPUT] if saved else "", vars(target))
    with suppress(OSError):
        sys.stderr.buffer.write(text.encode(target.encoding, "backslashreplace"))
        sys.stderr.flush()
    if options[FORMAT] == "terminal":
        for line in lines:
            complain(line)
        options.settings.tell()


def export(profile: Profile, to: list[Destination], quiet: bool = False) -> None:
    """Send the report, and print for each target what came of it; when ``quiet`` only what failed. No failure
    is a status."""
    from ..export.send import export_data, send

    try:
        report, picture = with_picture(profile)
        page = ""
        if any(one.kind == "mlflow" for one in to):
            from ..render import render

            page = render(report, "html", picture=picture)
        for sent, sentence in send(export_data(report, page), to):
            if not (sent and quiet):
                complain(sentence)
    except KeyboardInterrupt:
        complain("not exported: it was interrupted")
    except Exception as error:
        complain(f"not exported: {type(error).__name__}: {error}")
