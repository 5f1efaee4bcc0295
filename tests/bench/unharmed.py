"""``python -m tests.bench.unharmed FOLDER train.py ...``: a script plain, under ``bdoc``, and plain again.

Each run has a copy of the folder and a TMPDIR of its own. Compared are the exit status, standard output, and
what is left: files, and processes. The exit status is 1 where ``bdoc`` changed any of them.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.run import BDOC, MARK, left_running, ours_first

PATIENCE_S = 300.0
RANDOM = re.compile(r"\d{9,}\S*|_?[a-z0-9_]{8}$")  # instants and mkdtemp's choice, in names of files
ELAPSED = re.compile(
    r"\d+(\.\d+)? ?(ms|us|s|sec|seconds|it/s)\b|(time|took|data|iter_dt)[ :=]+[\d.]+( *\( *[\d.]+\))?"
    r"|mfu -?[\d.]+|SPS:? ?\d+|_{1,2}\d{9,}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Outcome:
    """What one run did; ``left`` names new files and processes that outlive it."""

    status: int
    out: str
    left: tuple[str, ...]
    wall_s: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the three and print one line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.unharmed", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="train.py ...")
    given = parser.parse_args(argv)
    python = [sys.executable]
    bdoc = [*BDOC, "run", "--output", os.devnull]
    before, seen, after = (execute(given.folder, [*one, *given.command]) for one in (python, bdoc, python))
    stdout, usual = compared(before.out, seen.out), compared(before.out, after.out)
    plain_s = (before.wall_s + after.wall_s) / 2
    print(
        f"status {before.status} {seen.status} {after.status}, stdout {stdout} (plain: {usual}), "
        f"left {sorted(set(seen.left) - set(before.left)) or 'nothing more'}, "
        f"{plain_s:.1f} s {seen.wall_s - plain_s:+.1f} s"
    )
    harmed = seen.status not in (before.status, after.status) or set(seen.left) - {*before.left, *after.left}
    return int(bool(harmed) or (stdout == "differs" and usual != "differs"))


def execute(folder: Path, command: list[str]) -> Outcome:
    """One run in a copy of the folder."""
    with tempfile.TemporaryDirectory(prefix="unharmed-") as name:
        place, tmp = Path(name) / "at", Path(name) / "tmp"
        shutil.copytree(folder, place)
        tmp.mkdir()
        own = files(place)
        environ = {**os.environ, MARK: name, "TMPDIR": str(tmp), "PYTHONPATH": ours_first()}
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=place, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        wall_s = time.monotonic() - began
        left = [*(files(place) - own), *files(tmp), *left_running(name)]
        out = done.stdout.decode("utf-8", "replace").replace(name, "")
    return Outcome(done.returncode, out, tuple(left), wall_s)


def files(folder: Path) -> set[str]:
    """The names of all files below, but what Python compiles; parts that chance chose are left out."""
    below = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {"/".join(RANDOM.sub("", part) for part in one.parts) for one in below if one.suffix != ".pyc"}


def compared(one: str, other: str) -> str:
    """How far two outputs are the same."""
    if one == other:
        return "the same"
    same = ELAPSED.sub("", one) == ELAPSED.sub("", other)
    return "the same but for elapsed times" if same else "differs"


if __name__ == "__main__":
    raise SystemExit(main())
