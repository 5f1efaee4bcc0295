"""Show verdict, evidence and ranked remedies of a profile."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from . import settings
from .options import Format
from .output import Screen, say, screen, write
from .reading import known_format, report_of


def main(
    profile: Annotated[str | None, typer.Argument(help="The profile.", show_default="profile.json")] = None,
    format: Format = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to this file instead.")] = None,
    details: Annotated[bool, typer.Option("--details", help="On a terminal: everything, uncut.")] = False,
) -> int:
    """Show verdict, evidence and ranked remedies of a profile."""
    from ..render import render

    defaults = settings.load()
    asked = known_format(format, defaults)
    report = report_of(profile or defaults.output)
    shown = Screen(100, False, "utf-8") if output or asked == "json" else screen(sys.stdout)
    text = render(
        report, asked, width=shown.width, color=shown.color, encoding=shown.encoding, details=details
    )
    if output:
        write(output, text.encode())
    else:
        say(text, shown.encoding)
    return 0
