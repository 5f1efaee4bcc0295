"""Carries out ``bdoc run``: start, watch, assemble, report, judge; the script's own status comes first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..launch.command import Command, plan
from ..launch.environment import instrumented
from ..launch.folder import RunFolder, run_folder
from ..launch.interpreter import choose
from ..launch.supervise import Ended, supervise
from ..model.profile import Gap, Profile
from ..model.report import Report
from .output import complain, screen, write
from .run_options import RunOptions
from .session import Line, Session

PACKAGE = Path(__file__).resolve().parent.parent
CANNOT_SAY = 3


def run_command(options: RunOptions) -> int:
    """Run the training to its end and say what limited it; the exit status of the contract."""
    python = choose(options.python)
    command = plan(options.script, options.module, options.launcher, options.args, python)
    with run_folder() as folder:
        session, ended = _train(options, command, folder)
        gaps = [Gap("watching", note) for note in ended.notes]
        if folder.path is None:
            gaps.append(Gap("hooks", folder.reason))
        profile, problem = _profile(session, ended, command, gaps)
    return _conclude(options, ended, profile, problem)


def _train(options: RunOptions, command: Command, folder: RunFolder) -> tuple[Session, Ended]:
    """From start to end of the training."""
    line = Line() if sys.stderr.isatty() and not options.quiet else None
    session = Session(options, Path(folder.path) if folder.path else None, line)
    session.prepare()
    environ = dict(os.environ)
    if folder.path is not None:
        settings = {"data_fn": ",".join(options.data_fn) or None}
        environ = instrumented(
            environ, folder.path, str(PACKAGE / "inject"), str(PACKAGE / "agent"), settings
        )
    try:
        return session, supervise(_profiled(options, command), environ, session.tick)
    finally:
        if line is not None:
            line.clear()


def _profiled(options: RunOptions, command: Command) -> Command:
    """The command under cProfile, when that was asked for and there is a Python to ask."""
    if not options.cprofile or command.kind == "launcher":
        return command
    target = os.path.splitext(options.output)[0] + ".prof"
    python, *rest = command.argv
    return Command((python, "-m", "cProfile", "-o", target, *rest), command.script, command.kind)


def _profile(session: Session, ended: Ended, command: Command, gaps: list[Gap]) -> tuple[Profile | None, str]:
    """The profile, or why there is none: a mistake of ours must not cost the user the script's status."""
    from ..assemble.profile import assemble

    try:
        return assemble(session.remains(ended, list(command.argv), command.script, gaps)), ""
    except Exception as error:
        return None, f"the profile could not be assembled: {type(error).__name__}: {error}"


def _conclude(options: RunOptions, ended: Ended, profile: Profile | None, problem: str) -> int:
    """Write the profile, print the report, judge the thresholds; the script's status holds whatever fails."""
    script_status = 0 if _ended_by_us(profile) else ended.exit_status
    status = CANNOT_SAY if options.conditions else 0
    try:
        if profile is None:
            complain(problem)
        else:
            status = _report(options, profile)
    except Exception as error:
        complain(f"the report could not be written: {type(error).__name__}: {error}")
    return script_status or status


def _report(options: RunOptions, profile: Profile) -> int:
    """The status of the gate, after the profile is saved and the report is shown."""
    from ..prescribe import write_up

    saved = _save(options, profile)
    report = write_up(profile)
    if not options.quiet:
        _tell(options, report, saved)
    return _judge(options, report)


def _save(options: RunOptions, profile: Profile) -> bool:
    from ..model.codec import encode_profile
    from ..model.refusal import Refused

    try:
        write(options.output, encode_profile(profile))
    except Refused as error:
        complain(str(error))
        return False
    return True


def _ended_by_us(profile: Profile | None) -> bool:
    """A training that we ended with a signal after asking nicely died by our hand, not by its own."""
    return profile is not None and profile.run.stopped_by is not None and profile.run.signal in (2, 15)


def _tell(options: RunOptions, report: Report, saved: bool) -> None:
    from ..render import render

    shown = screen(sys.stderr)
    text = render(report, options.format, width=shown.width, color=shown.color, encoding=shown.encoding)
    if saved and options.format == "terminal":
        text += f"bdoc: profile in {options.output}; `bdoc report {options.output}` shows this again\n"
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
