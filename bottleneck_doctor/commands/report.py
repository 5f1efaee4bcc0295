"""The commands that show one profile: ``bdoc report``, and ``bdoc view`` in the browser."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from .. import __version__
from ..model.errors import UsageError
from .cli import declared
from .options import EXPORT, FORMAT, OUTPUT, known_format, read_settings
from .output import Screen, complain, say, screen, with_picture, write

# What a file's name says about its format, where nothing else does; the first that fits.
ENDINGS = {
    ".html": "html", ".htm": "html", ".md": "markdown",
    ".speedscope.json": "speedscope", ".json": "json",
}  # fmt: skip

ANY_FORMAT = replace(
    FORMAT,
    help="terminal (the default), markdown, json, prompt (for an assistant); to a file html, speedscope.",
    read=known_format,
)  # fmt: skip
# The variable is for runs: looking at a report again must not send it again.
SENT_NOW = replace(EXPORT, variable="")


def report_command(
    profile: Annotated[
        str | None, typer.Argument(metavar="PROFILE", help="The profile.", show_default="profile.json")
    ] = None,
    format: Annotated[str | None, declared(ANY_FORMAT)] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to this file; .html, .md, .json, .speedscope.json say the format.",
        ),
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="On a terminal: everything, uncut.")] = False,
    export: Annotated[list[str] | None, declared(SENT_NOW)] = None,
) -> int:
    """Show verdict, evidence and ranked remedies of a profile."""
    from ..launch.masking import mask
    from ..model.codec import read_profile
    from ..render import DRAWN
    from ..render.ends import shown as shown_with
    from ..source.reader import lines_around

    settings = read_settings()
    named = next((name for ending, name in ENDINGS.items() if (output or "").lower().endswith(ending)), None)
    by_name = format is None and named and settings.table.get(FORMAT.name, "terminal") == "terminal"
    asked, to = settings.of(ANY_FORMAT, named if by_name else format), settings.of(SENT_NOW, export)
    path = profile or settings.of(OUTPUT)
    drawn = asked in DRAWN
    if drawn and not output and sys.stdout.isatty():
        raise UsageError(f"--format {asked} is no text for a terminal: name a file with -o, or pipe it on")
    seen = read_profile(path)
    from ..findings.report import write_up

    report, picture = with_picture(seen) if drawn else (write_up(seen), None)
    report = replace(report, bdoc=__version__)
    shown = Screen(100, False, "utf-8") if output or drawn or asked == "json" else screen(sys.stdout)
    quote = partial(lines_around, profile=seen, here=os.curdir, mask=mask)
    how = {"picture": picture, "details": details, "profile": path, "quote": quote}
    text = shown_with(report, asked, "" if output else path, vars(shown), **how)
    if output:
        write(output, text.encode())
    else:
        say(text, shown.encoding)
    settings.tell()
    if to:
        from .run import export as send

        send(seen, to)
    return 0


# In a process of its own, with an end to its memory: marshal may die of a file that is damaged, or worse.
TIMES = """
import json, pstats, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path[:] = json.loads(sys.argv[2])
from snakeviz.stats import json_stats, table_rows
stats = pstats.Stats(sys.argv[1])
json.dump([table_rows(stats), json_stats(stats)], sys.stdout)
"""
TIMES_WITHIN_S = 60.0


def view_command(
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE", help="The profile, or a .prof file of cProfile's.", show_default="profile.json"
        ),
    ] = None,
    cprofile: Annotated[
        bool, typer.Option("--cprofile", help="The .prof of the same name, as snakeviz draws it.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open nothing; print the page's path.")
    ] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the page here.")
    ] = None,
) -> int:
    """Open what a profile has in the browser: the report, or cProfile's times.

    Takes a profile, or a .prof file that cProfile wrote. Pages are written into a private folder below
    TMPDIR, or to the file given with -o; their path is printed, and they stay. A .prof is read by Python's
    marshal, which is not safe with files of other people: open only your own.
    """
    import tempfile  # `bdoc --help` need not pay for these
    import webbrowser
    from pathlib import Path

    path = profile or read_settings().of(OUTPUT)
    opens = not no_browser and has_browser()
    is_prof = path.endswith(".prof")
    if cprofile or is_prof:
        prof = path if is_prof else os.path.splitext(path)[0] + ".prof"
        if not (is_prof or os.path.exists(prof)):
            raise UsageError(f"no {prof} next to {path}: `bdoc run --cprofile SCRIPT` leaves one")
        name, page = "cprofile.html", _times_page(prof)
    else:
        from ..model.codec import read_profile
        from ..render import render

        report, picture = with_picture(read_profile(path))
        name, page = "report.html", render(report, "html", picture=picture)
    try:  # only its owner can look into the folder; it stays, since a browser may still read it
        place = os.path.abspath(output or os.path.join(tempfile.mkdtemp(prefix="bdoc-view-"), name))
    except OSError as problem:
        raise UsageError(f"no temporary folder can be made: {problem}; name a file with --output") from None
    write(place, page.encode())
    say(place + "\n")
    if opens and not webbrowser.open(Path(place).as_uri(), new=2):
        complain("no browser could be started: open the page by hand")
    return 0


def has_browser() -> bool:
    """Whether a user would see a browser: a terminal, a display, no CI and no ssh."""
    has = os.environ.get
    shows = any(map(has, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    if not shows or not sys.stdout.isatty() or has("CI") or has("SSH_CONNECTION"):
        return False
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _times_page(prof: str) -> str:
    """The page of a .prof file, which a process of its own reads."""
    import json
    import subprocess

    from ..render.page import cprofile_page

    found = json.dumps([entry for entry in sys.path if entry])
    try:
        with open(prof, "rb"):
            pass
        read = subprocess.run(
            [sys.executable, "-I", "-c", TIMES, prof, found], capture_output=True, timeout=TIMES_WITHIN_S
        )
    except OSError as problem:
        raise UsageError(f"cannot read {prof!r}: {problem.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{prof!r} takes more than {TIMES_WITHIN_S:.0f} s to read") from None
    if read.returncode:
        raise UsageError(f"{prof!r} is not a file of cProfile's: `bdoc run --cprofile SCRIPT` writes one")
    return cprofile_page(prof, *json.loads(read.stdout))
