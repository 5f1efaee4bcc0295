"""Show verdict, evidence and ranked remedies of a profile."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from .. import __version__
from ..model.errors import UsageError
from .cli import declared
from .options import EXPORT, FORMAT, OUTPUT, known_format, read_settings
from .output import Screen, say, screen, write
from .reading import with_picture

# What a file's name says about its format, where nothing else does; the first that fits.
ENDINGS = {
    ".html": "html", ".htm": "html", ".md": "markdown",
    ".speedscope.json": "speedscope", ".json": "json",
}  # fmt: skip

ANY_FORMAT = replace(
    FORMAT, help="terminal (the default), markdown, json; to a file html, speedscope.", read=known_format
)
# The variable is for runs: looking at a report again must not send it again.
SENT_NOW = replace(EXPORT, variable="")


def main(
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
    from ..model.codec import read_profile
    from ..render import DRAWN, render

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
    text = render(report, asked, picture=picture, details=details, **vars(shown))
    if output:
        write(output, text.encode())
    else:
        say(text, shown.encoding)
    settings.tell()
    if to:
        from .exporting import export as send

        send(seen, to)
    return 0
