"""Show what moved between two profiles beyond the noise."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .output import say, screen
from .reading import report_of


def main(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The profile from before.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The profile from after.")],
) -> int:
    """Show what moved between two profiles beyond the noise."""
    from ..analyse.compare import compare
    from ..render.gate import comparison_text

    encoding = screen(sys.stdout).encoding
    say(comparison_text(compare(report_of(base), report_of(new)), encoding), encoding)
    return 0
