"""Make one profile of those that all ranks and nodes of a training left.

`bdoc merge run/` takes every profile.*.json in the folder. What the merged profile says of a machine is of
the one whose rank the report is about.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..model.errors import UsageError
from .cli import declared
from .options import OUTPUT, read_settings
from .output import say, screen, with_folder, write

PATTERN = "profile.*.json"  # as `bdoc run` names them where it saw a part of the ranks


def main(
    profiles: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER...", help="Profiles, or folders of them.")
    ],
    output: Annotated[str | None, declared(OUTPUT)] = None,
) -> int:
    """Make one profile of those that all ranks and nodes of a training left."""
    from ..analyse.ranks import MERGED, all_ranks, merge, slow_ranks, world_size
    from ..model.codec import encode_profile, read_profile
    from ..render.gate import merged_lines

    path = with_folder(read_settings().of(OUTPUT, output), "--output")
    files = [
        file
        for one in profiles
        for file in (sorted(map(str, Path(one).glob(PATTERN))) if os.path.isdir(one) else [one])
        if os.path.realpath(file) != os.path.realpath(path)
    ]
    if not files:
        raise UsageError(f"no {PATTERN} in {', '.join(profiles)}")
    merged = merge(files, read_profile)
    write(path, encode_profile(merged), private=True)
    ranks = all_ranks(merged)
    lines = merged_lines(len(ranks), len({one.host for one in ranks}), world_size(merged), slow_ranks(ranks))
    lines += [f"{gap.what}: {gap.why}" for gap in merged.gaps if gap.what == MERGED]
    lines.append(f"profile in {path}; `bdoc report {path}` shows it")
    say("\n".join(lines) + "\n", screen(sys.stdout).encoding)
    return 0
