"""Carries out ``bdoc run``: start, watch, assemble, report, judge; the script's own status comes first."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..launch.command import Command, choose, instrumented, plan
from ..launch.folder import RunFolder, run_folder, usual_places
from ..launch.supervise import Ended, supervise
from ..model.errors import Refused
from ..sense.files import local_first
from ..sense.proc_files import tracer
from .options import CPROFILE, DATA_FN, EXPORT, FORMAT, MAX_STEPS, NO_PATHS, NO_PY_SPY, OUTPUT, PYTHON, QUIET
from .output import complain, screen, write
from .run_options import KEEP_TRACE, PLACE, PROVE_S, TRIAL, Options, conditions
from .session import ProgressLine, Session

if TYPE_CHECKING:  # the training waits for what is imported here
    from ..model.profile import Profile
    from ..model.report import Report
    from ..model.run import Order

PACKAGE = Path(__file__).resolve().parent.parent
UNDER_CPROFILE = PACKAGE / "launch" / "under_cprofile.py"
CPROFILE_DRAFT = "cprofile"
CANNOT_SAY = 3
TRACES = "*.trace.json"  # as the agent names them, each after the process that wrote it


def keep_trace(output: str, folder: RunFolder) -> list[str]:
    """Save the traces next to the profile, one for each process that has one; the files' names. A failure is
    printed to stderr."""
    found = sorted(Path(folder.path).glob(TRACES)) if folder.path is not None else []
    if not found:
        complain("no trace was recorded: the window opens on accelerators only, some seconds after warm-up")
    kept = []
    for place, file in enumerate(found):
        target = f"{os.path.splitext(output)[0]}.trace{f'.{place}' if place else ''}.json"
        try:
            write(target, file.read_bytes(), private=True)
        except (OSError, Refused) as error:
            complain(f"a trace is lost: {error}")
        else:
            kept.append(target)
    return kept


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
    """What keeps the command from being run so; "" when nothing does."""
    if command.kind == "launcher":
        return "what is started is a launcher's command, not a script or a module"
    if command.script == "-":
        return "the script comes from stdin"
    return "" if folder.path is not None else "there is no run folder to write to"


def _draft(folder: RunFolder) -> str:
    """Where cProfile writes; asked for only where `why_not` has nothing to say."""
    return os.path.join(folder.path or "", CPROFILE_DRAFT)


def keep_cprofile(output: str, folder: RunFolder) -> str:
    """Save what cProfile wrote; the file's name, or "" when there is none. Says why on stderr."""
    target = os.path.splitext(output)[0] + ".prof"
    try:
        write(target, Path(_draft(folder)).read_bytes())
    except FileNotFoundError:
        complain("cProfile left nothing: the script was killed, or left by os._exit")
    except (OSError, Refused) as error:
        complain(f"what cProfile wrote is lost: {error}")
    else:
        return target
    return ""


def run_command(options: Options) -> int:
    """Run the training to its end and say what limited it; the exit status of the contract."""
    if sys.stderr is None:  # started with stderr closed, as some daemons start their jobs
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays until we end
    python = choose(options[PYTHON])
    command = plan(*options.form, python)
    places = local_first(usual_places())
    place = options[PLACE]
    with run_folder([place, *places] if place else places) as folder:
        refusal = why_not(command, folder) if options[CPROFILE] else ""
        cprofile = options[CPROFILE] and not refusal
        started = command
        if cprofile:
            python, *rest = command.argv
            started = replace(command, argv=(python, str(UNDER_CPROFILE), _draft(folder), *rest))
        session, ended = _train(options, command, started, folder)
        missing = [("hooks", folder.reason)] if folder.path is None else []
        missing += [("cProfile", refusal)] if refusal else []
        profile, problem = finished(session, ended, command, missing)
        if profile is not None:
            options = of_its_ranks(options, profile)
        kept = _keep(options, folder, cprofile)
        ours = session.limit is not None and session.limit.excuses(ended.exit_status)
    status = _conclude(options, ended, 0 if ours else ended.exit_status, profile, problem, kept)
    if options[PROVE_S] is not None and profile is not None and (ours or ended.exit_status == 0):
        _prove(options)
    return status


def finished(
    session: Session,
    ended: Ended,
    command: Command,
    missing: list[tuple[str, str]],
    names: Mapping[str, str] | None = None,
) -> tuple[Profile | None, str]:
    """The profile as it is kept, or why there is none. ``names`` are those of code without a file, by its
    path."""
    missing += [("watching", note) for note in ended.notes]
    profile, problem = _profile(session, ended, command, missing)
    if profile is None:
        return None, problem
    if names:
        from .hide_paths import renamed

        profile = renamed(profile, names)
    if session.options[NO_PATHS]:
        from .hide_paths import pathless

        profile = pathless(profile)
    return profile, ""


def _prove(options: Options) -> None:
    """Try the remedies on the same training; the status is that of the run, whatever comes of it."""
    from ..model.errors import Refused
    from .prove import prove_command
    from .run_options import BUDGET_S, LONGEST, PROFILE

    own = {BUDGET_S: options[PROVE_S], PROFILE: options[OUTPUT], LONGEST: options[MAX_STEPS]}
    try:
        prove_command(Options(options.form, {**options.values, **own}))
    except Refused as problem:
        complain(str(problem))
    except Exception as error:
        complain(f"the remedies could not be tried: {type(error).__name__}: {error}")


def _keep(options: Options, folder: RunFolder, cprofile: bool) -> list[str]:
    """Save what was asked for next to the profile; a sentence about each file."""
    told = []
    if cprofile and (file := keep_cprofile(options[OUTPUT], folder)):
        told.append(f"cProfile's times in {file}; `bdoc view {file}` draws them")
    traces = keep_trace(options[OUTPUT], folder) if options[KEEP_TRACE] else []
    return told + [f"the profiler's trace in {file}; ui.perfetto.dev opens it" for file in traces]


def _train(options: Options, command: Command, started: Command, folder: RunFolder) -> tuple[Session, Ended]:
    """From start to end of the training; ``command`` is what was asked for, ``started`` what is run."""
    line = ProgressLine() if sys.stderr.isatty() and not options[QUIET] else None
    session = Session(
        options, Path(folder.path) if folder.path else None, line, command=command.argv, script=command.script
    )
    session.prepare()
    trial = options[TRIAL]
    environ = {**os.environ, **(_variables(trial.order) if trial is not None else {})}
    if folder.path is not None:
        environ = with_agent(environ, folder.path, options)
    try:
        ended = supervise(started, environ, session.tick)
    finally:
        if line is not None:
            line.clear()
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


def _profile(
    session: Session, ended: Ended, command: Command, missing: list[tuple[str, str]]
) -> tuple[Profile | None, str]:
    """The profile, or why there is none: an error in bdoc must not change the script's exit status."""
    from ..assemble.profile import assemble
    from ..model.run import Gap

    gaps = [Gap(what, why) for what, why in missing]
    try:
        return assemble(session.remains(ended, gaps)), ""
    except Exception as error:
        return None, f"the profile could not be assembled: {type(error).__name__}: {error}"


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
        from .exporting import export

        export(profile, options[EXPORT], options[QUIET])
    return status or judged


def _save(options: Options, profile: Profile) -> bool:
    from ..model.codec import encode_profile
    from ..model.errors import Refused

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
    part = partly(profile)
    others = bool(part and part[0]) and not sys.stderr.isatty()  # of many runs the first rank's speaks
    quiet = options[QUIET] or others
    if quiet and not conditions(options):
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
        _tell(options, profile, report, saved, kept)
    return _judge(options, report)


def _tell(options: Options, profile: Profile, report: Report, saved: bool, kept: list[str]) -> None:
    from ..render import render

    shown = screen(sys.stderr)
    text = render(report, options[FORMAT], **vars(shown))
    if saved and options[FORMAT] == "terminal":
        text += f"bdoc: profile in {options[OUTPUT]}; `bdoc report {options[OUTPUT]}` shows this again\n"
        if partly(profile):
            folder = os.path.dirname(options[OUTPUT]) or "."
            text += f"bdoc: `bdoc merge {folder}` joins the profiles of all ranks\n"
    if options[FORMAT] == "terminal":
        text += "".join(f"bdoc: {sentence}\n" for sentence in kept)
    with suppress(OSError):
        sys.stderr.buffer.write(text.encode(shown.encoding, "backslashreplace"))
        sys.stderr.flush()
    if options[FORMAT] == "terminal":
        options.settings.tell()


def _judge(options: Options, report: Report) -> int:
    """The gate of ``bdoc check`` at the end of the run."""
    if not conditions(options):
        return 0
    from ..analyse.gate import judge
    from ..render.gate import outcome_lines

    outcome = judge(report, conditions(options))
    for line in outcome_lines(outcome):
        complain(line)
    return outcome.status
