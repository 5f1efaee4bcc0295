"""``--cprofile``: runs the training under cProfile too, and keeps what that wrote beside the profile."""

from __future__ import annotations

import os
from pathlib import Path

from ..launch.command import Command
from ..launch.folder import RunFolder
from ..model.errors import Refused
from .output import complain, write

RUNNER = Path(__file__).resolve().parent.parent / "agent" / "under_cprofile.py"
NAME = "cprofile"


def under_cprofile(command: Command, folder: RunFolder) -> Command:
    """The command with our runner between Python and the script."""
    python, *rest = command.argv
    return Command((python, str(RUNNER), _draft(folder), *rest), command.script, command.kind)


def why_not(command: Command, folder: RunFolder) -> str:
    """What keeps the command from being run so; "" when nothing does."""
    if command.kind == "launcher":
        return "what is started is a launcher's command, not a script or a module"
    if command.script == "-":
        return "the script comes from stdin"
    return "" if folder.path is not None else "there is no run folder to write to"


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


def _draft(folder: RunFolder) -> str:
    assert folder.path is not None, "asked for only where why_not has nothing to say"
    return os.path.join(folder.path, NAME)
