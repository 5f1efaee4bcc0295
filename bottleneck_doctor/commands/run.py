"""Carries out ``bdoc run``: start, watch, assemble, report, judge; the script's own status comes first."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..launch.command import Command, choose, instrumented, plan
from ..launch.folder import RunFolder, run_folder, usual_places
from ..launch.supervise import Ended, supervise
from ..sense.files import local_first
from ..sense.pyspy import tracer
from .keep_trace import keep_trace
from .output import complain, screen, write
from .run_options import RunOptions
from .session import ProgressLine, Session
from .under_cprofile import keep_cprofile, under_cprofile, why_not

if TYPE_CHECKING:  # the training waits for what is imported here
    from ..model.profile import Profile
    from ..model.report import Report
    from ..model.run import Order

PACKAGE = Path(__file__).resolve().parent.parent
CANNOT_SAY = 3


def run_command(options: RunOptions) -> int:
    """Run the training to its end and say what limited it; the exit status of the contract."""
    if sys.stderr is None:  # started with stderr closed, as some daemons start their jobs
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays until we end
    python = choose(options.python)
    command = plan(options.script, options.module, options.launcher, options.args, python)
    places = local_first(usual_places())
    with run_folder([options.place, *places] if options.place else places) as folder:
        refusal = why_not(command, folder) if options.cprofile else ""
        cprofile = options.cprofile and not refusal
        started = under_cprofile(command, folder) if cprofile else command
        session, ended = _train(options, command, started, folder)
        missing = [("hooks", folder.reason)] if folder.path is None else []
        missing += [("cProfile", refusal)] if refusal else []
        missing += [("watching", note) for note in ended.notes]
        profile, problem = _profile(session, ended, command, missing)
        from .calibrating import calibrated, nameless

        if profile is not None and options.calibrate is not False:
            if options.calibrate and sys.stderr.isatty() and not options.quiet:
                complain("timing remedies on the training's own files; Ctrl-C skips that")
            profile = calibrated(profile, python, bool(options.calibrate))
        profile = profile and nameless(profile)
        if profile is not None and not options.paths:
            from .pathless import pathless

            profile = pathless(profile)
        kept = _keep(options, folder, cprofile)
        ours = session.limit is not None and session.limit.excuses(ended.exit_status)
    status = _conclude(options, 0 if ours else ended.exit_status, profile, problem, kept)
    if options.prove_s is not None and profile is not None and (ours or ended.exit_status == 0):
        _prove(options, options.prove_s)
    return status


def _prove(options: RunOptions, seconds: float) -> None:
    """Try the remedies on the same training; the status is that of the run, whatever comes of it."""
    from ..model.errors import Refused
    from .prove import ProveOptions
    from .proving import prove_command

    target = (options.script, options.module, options.launcher, options.args)
    try:
        prove_command(
            ProveOptions(
                *target,
                budget_s=seconds,
                profile=options.output,
                format=options.format,
                python=options.python,
                data_fn=options.data_fn,
                max_steps=options.max_steps,
                quiet=options.quiet,
            )
        )
    except Refused as problem:
        complain(str(problem))
    except Exception as error:
        complain(f"the remedies could not be tried: {type(error).__name__}: {error}")


def _keep(options: RunOptions, folder: RunFolder, cprofile: bool) -> list[str]:
    """Save what was asked for beside the profile; a sentence about each file."""
    told = []
    if cprofile and (file := keep_cprofile(options.output, folder)):
        told.append(f"cProfile's times in {file}; `bdoc view {file}` draws them")
    traces = keep_trace(options.output, folder) if options.keep_trace else []
    return told + [f"the profiler's trace in {file}; ui.perfetto.dev opens it" for file in traces]


def _train(
    options: RunOptions, command: Command, started: Command, folder: RunFolder
) -> tuple[Session, Ended]:
    """From start to end of the training; ``command`` is what was asked for, ``started`` what is run."""
    line = ProgressLine() if sys.stderr.isatty() and not options.quiet else None
    session = Session(
        options, Path(folder.path) if folder.path else None, line, command=command.argv, script=command.script
    )
    session.prepare()
    environ = {**os.environ, **(_variables(options.trial.order) if options.trial is not None else {})}
    if folder.path is not None:
        settings = {
            "data_fn": ",".join(options.data_fn) or None,
            "tracer": tracer() if options.py_spy else None,
            "trial": options.trial.path if options.trial is not None else None,
        }
        environ = instrumented(
            environ, folder.path, str(PACKAGE / "inject"), str(PACKAGE / "agent"), settings
        )
    try:
        ended = supervise(started, environ, session.tick)
    finally:
        if line is not None:
            line.clear()
    session.ended(ended)
    return session, ended


def _variables(order: Order) -> dict[str, str]:
    """What a trial sets in the environment of the training."""
    from ..model.run import ENVIRONMENT

    named = [one.options for one in order.treatments if one.name == ENVIRONMENT]
    hashing = {} if order.seed is None else {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", order.seed)}
    return {name: str(value) for options in [hashing, *named] for name, value in options.items()}


def _profile(
    session: Session, ended: Ended, command: Command, missing: list[tuple[str, str]]
) -> tuple[Profile | None, str]:
    """The profile, or why there is none: a mistake of ours must not cost the user the script's status."""
    from ..assemble.profile import assemble
    from ..model.run import Gap

    gaps = [Gap(what, why) for what, why in missing]
    try:
        return assemble(session.remains(ended, list(command.argv), command.script, gaps)), ""
    except Exception as error:
        return None, f"the profile could not be assembled: {type(error).__name__}: {error}"


def _conclude(
    options: RunOptions, status: int, profile: Profile | None, problem: str, kept: list[str]
) -> int:
    """Write the profile, print the report, judge; whatever fails of this, the script's status holds."""
    judged = CANNOT_SAY if options.conditions else 0
    if profile is None:
        complain(problem)
        return status or judged
    saved = _save(options, profile)
    try:
        judged = _report(options, profile, saved, kept)
    except Exception as error:
        rest = f"; the profile is in {options.output}" if saved else ""
        complain(f"the report could not be written: {type(error).__name__}: {error}{rest}")
    return status or judged


def _save(options: RunOptions, profile: Profile) -> bool:
    from ..model.codec import encode_profile
    from ..model.errors import Refused

    try:
        write(options.output, encode_profile(profile), private=True)
    except Refused as error:
        complain(str(error))
        return False
    except Exception as error:
        complain(f"the profile could not be written: {type(error).__name__}: {error}")
        return False
    return True


def _report(options: RunOptions, profile: Profile, saved: bool, kept: list[str]) -> int:
    """Show the report; the status of the gate."""
    if options.quiet and not options.conditions:
        return 0
    from ..prescribe import write_up

    report = write_up(profile)
    if not options.quiet:
        _tell(options, report, saved, kept)
    return _judge(options, report)


def _tell(options: RunOptions, report: Report, saved: bool, kept: list[str]) -> None:
    from ..render import render

    shown = screen(sys.stderr)
    text = render(report, options.format, width=shown.width, color=shown.color, encoding=shown.encoding)
    if saved and options.format == "terminal":
        text += f"bdoc: profile in {options.output}; `bdoc report {options.output}` shows this again\n"
    if options.format == "terminal":
        text += "".join(f"bdoc: {sentence}\n" for sentence in kept)
    try:
        sys.stderr.buffer.write(text.encode(shown.encoding, "backslashreplace"))
        sys.stderr.flush()
    except OSError:
        pass


def _judge(options: RunOptions, report: Report) -> int:
    """The gate of ``bdoc check`` at the end of the run."""
    if not options.conditions:
        return 0
    from ..analyse.gate import judge
    from ..render.outcome import outcome_lines

    outcome = judge(report, options.conditions)
    for line in outcome_lines(outcome):
        complain(line)
    return outcome.status
