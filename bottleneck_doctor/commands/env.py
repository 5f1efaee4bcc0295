"""Show what can be measured on this machine, what cannot, why, and how to allow it."""

from __future__ import annotations

import sys
from typing import Annotated

from . import pyproject_settings
from .cli import declared
from .options import PYTHON
from .output import say, screen
from .target import describe


def main(python: Annotated[str | None, declared(PYTHON)] = None) -> int:
    """Show what can be measured on this machine, what cannot, why, and how to allow it."""
    from ..launch.command import choose
    from ..render.pages import capabilities_text
    from ..sense.capabilities import list_capabilities

    target = describe(choose(pyproject_settings.load().of(PYTHON, python)))
    shown = screen(sys.stdout)
    say(
        capabilities_text([target, *list_capabilities()], shown.width, shown.color, shown.encoding),
        shown.encoding,
    )
    return 0
