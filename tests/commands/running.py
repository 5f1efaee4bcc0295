"""``bdoc run`` as a person starts it: a process, its streams, its files, and what it leaves behind."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.agent.torch_server import server
from tests.lab.run import BDOC, ours_first

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
    folder: Path,
    *line: str | bytes,
    first: str = "",
    env: dict[str, str] | None = None,
    fresh: bool = False,
    **how: Any,
) -> Told:
    """``bdoc run`` of this line in ``folder``, after ``first``; ``fresh`` imports bdoc and torch anew."""
    places = folder / "tmp"
    places.mkdir(exist_ok=True)
    environ = {**os.environ, "TMPDIR": str(places), "PYTHONPATH": ours_first(), **(env or {})}
    if not (fresh or first or how):
        return _told(
            folder, *server(True).watch(line, folder, environ, PATIENCE_S, _needs_torch(folder, line))
        )
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **how}
    wrapper = how.pop("wrapper", [])
    command = [*wrapper, sys.executable, "-c", f"{first}\n{START}", "run", *line]
    done = subprocess.run(command, cwd=folder, env=environ, timeout=PATIENCE_S, check=False, **how)
    return _told(folder, done.returncode, done.stdout or b"", done.stderr or b"")


def started(folder: Path, says: bytes, *line: str) -> subprocess.Popen[bytes]:
    """A ``bdoc run`` that goes on, its script having printed this line."""
    environ = {**os.environ, "PYTHONPATH": ours_first(), "TMPDIR": str(folder)}
    command, pipe = [*BDOC, "run", "-q", *line], subprocess.PIPE
    run = subprocess.Popen(command, cwd=folder, env=environ, stdout=pipe, stderr=subprocess.DEVNULL)
    assert run.stdout is not None
    assert run.stdout.readline() == says
    run.stdout.close()
    return run


def _told(folder: Path, status: int, out: bytes, err: bytes) -> Told:
    file = folder / "profile.json"
    profile = json.loads(file.read_bytes()) if file.exists() else {}
    left = [name for name in os.listdir(folder / "tmp") if "bdoc" in name]
    return Told(status, out, err.decode(errors="replace"), profile, left)


def _needs_torch(folder: Path, line: tuple[str | bytes, ...]) -> bool:
    """Whether the line is of a script of ours, and of no launcher, that imports torch."""
    files = [folder / one for one in line if isinstance(one, str) and one.endswith(".py")]
    texts = [file.read_text(errors="replace") for file in files if "--" not in line and file.is_file()]
    return any(re.search(r"^import .*\btorch\b", text, re.MULTILINE) for text in texts)


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
