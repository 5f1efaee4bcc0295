"""``bdoc run`` as a person starts it: a process, its streams, its files, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.house.source import ROOT

PATIENCE_S = 120.0
# What a test changes about bdoc itself goes before this; the training has its own interpreter.
START = "import sys; from bottleneck_doctor.commands.app import main; sys.exit(main())"


@dataclass(frozen=True)
class Told:
    """A run that has ended. ``left`` is what lies in TMPDIR although bdoc has put it there."""

    status: int
    out: bytes
    err: str
    profile: dict[str, Any]
    left: list[str]


def script(folder: Path, source: str, name: str = "train.py") -> str:
    """A script of the user's."""
    (folder / name).write_text(source)
    return name


def bdoc(
    folder: Path, *line: str | bytes, first: str = "", env: dict[str, str] | None = None, **how: Any
) -> Told:
    """``bdoc run`` of this line in ``folder``; ``first`` is done in the supervisor before it begins."""
    places = folder / "tmp"
    places.mkdir(exist_ok=True)
    environ = {**os.environ, "TMPDIR": str(places), **(env or {})}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environ.get("PYTHONPATH")])])
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **how}
    wrapper = how.pop("wrapper", [])
    command = [*wrapper, sys.executable, "-c", f"{first}\n{START}", "run", *line]
    done = subprocess.run(command, cwd=folder, env=environ, timeout=PATIENCE_S, check=False, **how)
    file = folder / "profile.json"
    profile = json.loads(file.read_bytes()) if file.exists() else {}
    left = [name for name in os.listdir(places) if "bdoc" in name]
    return Told(
        done.returncode, done.stdout or b"", (done.stderr or b"").decode(errors="replace"), profile, left
    )


def plain(folder: Path, *line: str, **how: Any) -> tuple[int, bytes]:
    """The same without bdoc, with a status as a shell shows it."""
    how = {"stdin": subprocess.DEVNULL, **how}
    done = subprocess.run(
        [sys.executable, *line], cwd=folder, capture_output=True, timeout=PATIENCE_S, check=False, **how
    )
    return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout


def gaps(told: Told) -> dict[str, str]:
    """What could not be measured, and why."""
    return {gap["what"]: gap["why"] for gap in told.profile["gaps"]}


def in_its_own_world(*mounts: str) -> list[str]:
    """What stands before a command whose mounts nobody else shall see."""
    return ["unshare", "-m", "sh", "-c", "; ".join([*mounts, 'exec "$@"']), "sh"]


@cache
def may_mount() -> bool:
    """Whether there is ``unshare``, and the right to use it."""
    probe = in_its_own_world("mount -t tmpfs tmpfs /mnt || exit 1")
    try:
        return subprocess.run([*probe, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
