"""Where the outcome of a check goes beside the terminal: JUnit XML, annotations, a job summary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .. import __version__
from ..model.errors import UsageError
from ..model.gate import Gate
from .output import append, say, writable, write

ANNOTATIONS = ("github",)


@dataclass(frozen=True)
class GateFiles:
    """What was asked for; None where it was not."""

    junit: str | None = None
    summary: str | None = None
    annotations: str | None = None


def asked(files: GateFiles, profiles: Sequence[str]) -> GateFiles:
    """The same, once it is clear that all of it can be written and that no profile is written over."""
    given = {"--junit": files.junit, "--summary": files.summary}
    places = [(option, path) for option, path in given.items() if path is not None]
    for option, path in places:
        writable(path, option)
        if any(os.path.realpath(path) == os.path.realpath(profile) for profile in profiles):
            raise UsageError(f"{option} {path!r} would write over a profile")
    if len({os.path.realpath(path) for _, path in places}) < len(places):
        raise UsageError(f"--junit and --summary are both {files.junit!r}: give each a file of its own")
    if files.annotations is not None and files.annotations not in ANNOTATIONS:
        raise UsageError(f"--annotations {files.annotations!r}: there is only {', '.join(ANNOTATIONS)}")
    return files


def hand_over(files: GateFiles, gate: Gate) -> None:
    """Write everything that was asked for, whatever the outcome."""
    if files.annotations is not None:
        from ..render.annotations import github

        workspace = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
        say("".join(f"{line}\n" for line in github(gate, os.path.realpath(workspace))), "utf-8")
    if files.junit is not None:
        from ..render.junit import junit

        write(files.junit, junit(gate, __version__), "--junit")
    if files.summary is not None:
        from ..render.summary import LARGEST_BYTES, summary

        taken = os.path.getsize(files.summary) if os.path.isfile(files.summary) else 0
        append(files.summary, summary(gate, LARGEST_BYTES - taken), "--summary")
