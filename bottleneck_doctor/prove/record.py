"""Keeps what was predicted and what was measured in a file of the user's own: JSON, a line each, no names.

Nothing here leaves the machine. The script is known by a hash, so that the same one proven twice counts once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from .. import __version__
from ..analyse.prediction_record import track
from ..model.codec import decode_kept, encode_kept
from ..model.errors import UsageError
from ..model.proof import Proof, Proved, RecordedPrediction, TrackRecord
from ..model.report import RunSummary

LARGEST_FILE = 1 << 20  # bytes, some four thousand pairs; beyond it the older half goes
LONGEST_LINE = 4096
WAIT_S, LOOK_S = 2.0, 0.05  # for another bdoc that is writing
FOLDER, FILE = "bdoc", "proofs.jsonl"


def default_path(environment: Mapping[str, str]) -> str:
    """Where state of programs belongs: ``$XDG_STATE_HOME/bdoc/proofs.jsonl``."""
    home = environment.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):  # the specification says to ignore any other
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, FOLDER, FILE)


def remember(path: str, proof: Proof) -> int:
    """Add what was predicted and measured to the file; how many pairs. Raises ``UsageError`` where it cannot
    be written."""
    kept = [one for row in proof.rows if (one := _pair(proof.run, row)) is not None]
    if not kept:
        return 0
    try:
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with _held(path) as handle:
            _append(handle, b"".join(encode_kept(one) + b"\n" for one in kept))
            if os.fstat(handle).st_size > LARGEST_FILE:
                _halve(path)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise UsageError(f"cannot write {path!r}: {why}; choose another place with --record-file") from None
    return len(kept)


def track_record(path: str, machine: str | None = None) -> TrackRecord:
    """What the file says, of one machine or of all; nothing where there is none. Broken lines are skipped."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * LARGEST_FILE))
            lines = file.read(2 * LARGEST_FILE).split(b"\n")
    except (OSError, ValueError):
        lines = []
    read = (decode_kept(line) for line in lines if 0 < len(line) <= LONGEST_LINE)
    return track(path, [one for one in read if one is not None and machine in (None, one.machine)])


def machine_of(run: RunSummary) -> str:
    """One machine's hash: another processor under the same name is another machine."""
    facts = run.machine
    return _hash([run.host, *(facts.get(name) for name in ("cpu", "cores_online", "cores", "gpus"))])


def _pair(run: RunSummary, row: Proved) -> RecordedPrediction | None:
    """A row of which both are known."""
    predicted, measured = row.predicted, row.measured
    if (
        predicted is None
        or predicted.likely is None
        or measured is None
        or row.kind not in ("remedy", "combination")
    ):
        return None
    return RecordedPrediction(
        at=run.started_at,
        machine=machine_of(run),
        job=_hash([run.cwd, *run.command]),
        remedy="+".join(sorted(row.remedies)) or row.id,
        basis=predicted.basis,
        predicted=(predicted.low, predicted.likely, predicted.high),
        measured=(measured.low, measured.likely, measured.high),
        verdict=row.verdict,
        scope=row.scope,
        bdoc=__version__,
    )


def _hash(parts: list[object]) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:12]


@contextmanager
def _held(path: str) -> Iterator[int]:
    """The file, open for adding and ours alone. Where locks are unknown, as on some network drives, or held
    for too long, a line is added without: writes at the end of a file do not tear each other."""
    until = time.monotonic() + WAIT_S
    while True:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            locked = _locked(handle, until)
            if not locked or _is_still(handle, path):
                yield handle
                return
        finally:
            os.close(handle)


def _locked(handle: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        except OSError:
            return False


def _is_still(handle: int, path: str) -> bool:
    """Whether nobody has put another file in its place while we waited."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False


def _append(handle: int, data: bytes) -> None:
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":  # whoever wrote last was killed
        data = b"\n" + data
    os.write(handle, data)


def _halve(path: str) -> None:
    """Leave the newer half, in a file that takes the place of this one at once."""
    with open(path, "rb") as file:
        file.seek(-LARGEST_FILE // 2, os.SEEK_END)
        newer = file.read().partition(b"\n")[2]
    draft = f"{path}.{os.getpid()}"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(newer)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
