"""``--keep-trace``: keeps what the profiler recorded of an accelerator's steps, else deleted with the run."""

from __future__ import annotations

import os
from pathlib import Path

from ..launch.folder import RunFolder
from ..model.errors import Refused
from .output import complain, write

TRACES = "*.trace.json"  # as the agent names them, each after the process that wrote it


def keep_trace(output: str, folder: RunFolder) -> list[str]:
    """Save the traces beside the profile, one for each process that has one; the files' names. Says why not
    on stderr."""
    found = sorted(Path(folder.path).glob(TRACES)) if folder.path is not None else []
    if not found:
        complain("no trace was recorded: the window opens on accelerators only, some seconds after warm-up")
    kept = []
    for place, file in enumerate(found):
        target = f"{os.path.splitext(output)[0]}.trace{f'.{place}' if place else ''}.json"
        try:
            write(target, file.read_bytes(), private=True)
        except (OSError, Refused) as error:
            complain(f"a trace is lost: {error}")
        else:
            kept.append(target)
    return kept
