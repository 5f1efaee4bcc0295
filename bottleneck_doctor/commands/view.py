"""Open what a profile has in the browser: the report, the flame graph, or cProfile's times.

Takes a profile, or a .prof file that cProfile wrote. Pages are written into a private folder below TMPDIR, or
to the file given with -o; their path is printed, and they stay. A .prof is read by Python's marshal, which is
not safe with files from strangers: open only your own.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..model.errors import UsageError
from .options import OUTPUT, read_settings
from .output import complain, say, write
from .reading import report_and_picture

# In a process of its own, with an end to its memory: marshal may die of a file that is damaged, or worse.
CHECK = """
import pstats, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
pstats.Stats(sys.argv[1])
"""
CHECK_S = 60.0
# Not `-m`, which would put the working directory first on the path, and whatever lies there.
SNAKEVIZ = "import sys; sys.path[:] = filter(None, sys.path); from snakeviz.cli import main; sys.exit(main())"


def main(
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE", help="The profile, or a .prof file of cProfile's.", show_default="profile.json"
        ),
    ] = None,
    flame_graph: Annotated[
        bool, typer.Option("--flame-graph", help="The flame graph of the stacks.")
    ] = False,
    cprofile: Annotated[
        bool, typer.Option("--cprofile", help="The .prof beside the profile, in snakeviz, until Ctrl-C.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open nothing; print the page's path.")
    ] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the page here.")
    ] = None,
) -> int:
    """Open what a profile has in the browser: the report, the flame graph, or cProfile's times."""
    path = profile or read_settings().of(OUTPUT)
    opens = not no_browser and has_browser()
    times = cprofile or path.endswith(".prof")
    if times and (flame_graph or output):
        other = "--flame-graph" if flame_graph else "--output"
        raise UsageError(
            f"{other} is about a page, and cProfile's times are shown by snakeviz: leave one out"
        )
    if times:
        _snakeviz(path if path.endswith(".prof") else _beside(path), opens)
    place = _written(path, "flamegraph" if flame_graph else "html", output)
    say(place + "\n")
    if opens:
        _open(place)
    return 0


def has_browser() -> bool:
    """Whether somebody sits here who would see a browser: a terminal, a display, no CI and no ssh."""
    environ = os.environ
    if not sys.stdout.isatty() or environ.get("CI") or environ.get("SSH_CONNECTION"):
        return False
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("BROWSER")):
        return False
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _written(path: str, format: str, output: str | None) -> str:
    """Where the page is now."""
    from ..render import render
    from ..render.compose import why_no_stacks

    report, picture = report_and_picture(path)
    if format == "flamegraph" and not picture.stacks:
        raise UsageError(f"no stacks in {path}: {why_no_stacks(report)}")
    page = render(report, format, picture=picture)
    name = "flame-graph.html" if format == "flamegraph" else "report.html"
    place = os.path.abspath(output or os.path.join(_folder(), name))
    write(place, page.encode())
    return place


def _folder() -> str:
    """Only its owner can look in; it stays, as nobody knows when a browser has read it."""
    import tempfile

    try:
        return tempfile.mkdtemp(prefix="bdoc-view-")
    except OSError as problem:
        raise UsageError(f"no temporary folder can be made: {problem}; name a file with --output") from None


def _open(place: str) -> None:
    import webbrowser
    from pathlib import Path

    if not webbrowser.open(Path(place).as_uri(), new=2):
        complain("no browser could be started: open the page by hand")


def _beside(path: str) -> str:
    """cProfile's file of the same run."""
    prof = os.path.splitext(path)[0] + ".prof"
    if not os.path.exists(prof):
        raise UsageError(f"no {prof} beside {path}: `bdoc run --cprofile SCRIPT` leaves one")
    return prof


def _snakeviz(prof: str, opens: bool) -> None:
    """Becomes snakeviz: its server listens on this machine alone, and ends with Ctrl-C."""
    from importlib.util import find_spec

    _check(os.path.abspath(prof))
    if find_spec("snakeviz") is None:
        raise UsageError("snakeviz is not installed: pip install snakeviz")
    options = ["--hostname", "127.0.0.1", *([] if opens else ["--server"])]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", SNAKEVIZ, *options, os.path.abspath(prof)])


def _check(prof: str) -> None:
    """Whether pstats can read it, found out at a distance."""
    import subprocess

    try:
        with open(prof, "rb"):
            pass
        checked = subprocess.run(
            [sys.executable, "-I", "-c", CHECK, prof], capture_output=True, timeout=CHECK_S, check=False
        )
    except OSError as problem:
        raise UsageError(f"cannot read {prof!r}: {problem.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{prof!r} takes more than {CHECK_S:.0f} s to read") from None
    if checked.returncode:
        raise UsageError(f"{prof!r} is not a file of cProfile's: `bdoc run --cprofile SCRIPT` writes one")
