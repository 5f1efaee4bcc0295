"""``bdoc run`` and ``bdoc report`` with nothing but Python, torch and msgspec, as far as needed here.

The same session, assembly and diagnosis as ``bottleneck_doctor.commands.run``, without the command line
(typer) and the terminal (rich): the report is kept beside the profile.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.lab.run import BDOC, ROOT

NEEDED = ("typer", "rich")


def bdoc() -> list[str]:
    """The command: the real thing where it can be imported, else this file."""
    return [sys.executable, "-m", "tests.gpu.bare"] if missing() else [*BDOC]


def missing() -> list[str]:
    """What `bdoc` needs and this Python lacks."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def main(argv: Sequence[str] | None = None) -> int:
    """Take ``run [--quiet] [--no-profiler] [--no-py-spy] -o PROFILE SCRIPT ...`` or ``report PROFILE``."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.bare", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--quiet", action="store_true")
    run.add_argument("--no-profiler", action="store_false", dest="profiler")
    run.add_argument("--no-py-spy", action="store_false", dest="py_spy")
    run.add_argument("-o", "--output", type=Path, required=True)
    run.add_argument("script")
    run.add_argument("args", nargs=argparse.REMAINDER)
    report = commands.add_parser("report")
    report.add_argument("profile", type=Path)
    report.add_argument("--format", choices=["json"], default="json")
    given = parser.parse_args(argv)
    if given.command == "run":
        return _run(given)
    print(_beside(given.profile).read_text())
    return 0


def _run(given: argparse.Namespace) -> int:
    from bottleneck_doctor.assemble.profile import assemble
    from bottleneck_doctor.commands.options import NO_PROFILER, NO_PY_SPY, QUIET
    from bottleneck_doctor.commands.run_options import Form, Options
    from bottleneck_doctor.commands.session import Session
    from bottleneck_doctor.findings.report import write_up
    from bottleneck_doctor.launch.start import instrumented, plan, run_folder
    from bottleneck_doctor.launch.supervise import supervise

    package = ROOT / "bottleneck_doctor"
    form = Form(given.script, None, None, given.args)
    options = Options(form, {NO_PROFILER: not given.profiler, NO_PY_SPY: not given.py_spy, QUIET: True})
    command = plan(given.script, None, None, given.args, sys.executable)
    with run_folder() as folder:
        if folder.path is None:
            raise SystemExit(f"no run folder: {folder.reason}")
        session = Session(options, Path(folder.path), command=command.argv, script=command.script)
        session.prepare()
        doors = str(package / "inject"), str(package / "agent")
        environ = instrumented(dict(os.environ), folder.path, *doors, {})
        ended = supervise(command, environ, session.tick)
        profile = assemble(session.remains(ended, []))
    given.output.write_text(json.dumps(asdict(profile)))
    _beside(given.output).write_text(json.dumps(asdict(write_up(profile))))
    return ended.exit_status


def _beside(profile: Path) -> Path:
    return profile.with_suffix(".report.json")


if __name__ == "__main__":
    raise SystemExit(main())
