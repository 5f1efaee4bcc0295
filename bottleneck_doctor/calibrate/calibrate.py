"""Times what the findings would advise, once the training is gone: bounded in time, never an error.

Unasked, at most two seconds and a tenth of the run are spent, on what decides the first remedies of the list;
``--calibrate`` times all that can be timed.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..model.instruments import Calibration
from ..model.profile import Profile
from ..model.run import Gap
from .subjects import (
    WAYS,
    Request,
    Subject,
    choose,
    computing_request,
    files_of,
    moving_request,
    only,
    pictures_request,
    reads_request,
)

WHAT = "calibration"
BUDGET_S = 12.0  # in all, at the very most; usually two to five
# each; importing torch is part of the last two
LIMIT_S = {"reads": 3.0, "pictures": 5.0, "moving": 6.0, "computing": 9.0}
LEAST_S = 0.5  # of the budget, or a probe is not begun
UNASKED_S = 2.0
UNASKED_SHARE = 0.1  # of the run
FIRST = 3  # remedies of the list, whose promises are timed unasked
# Seconds that a short answer takes, by probe, and the remedies whose promise it decides. Moving batches is
# not among them: its loader's workers take longer to start.
SHORT_S = {"reads": 1.6, "pictures": 0.8, "computing": 1.9}
DECIDES: dict[str, Collection[str]] = {
    "reads": ("workers-auto", "stage-to-fast-storage", "cache-bytes-ram", "pack-shards", "readahead-hints"),
    "pictures": (
        "decoder-swap",
        "decode-scaled",
        "reencode-offline",
        "resize-offline",
        "cache-decoded-ram",
        "dali-pipeline",
    ),
    "computing": WAYS,
}


def calibrate(
    profile: Profile, python: str, is_remote: Callable[[str], bool], remedies: Sequence[str] | None = None
) -> tuple[list[Calibration], list[Gap]]:
    """Rows for the profile, and what could not be timed. ``python`` runs what needs the user's packages,
    unless the training told which interpreter it was. An interrupt ends it; what is there is kept.
    Where nobody asked for it, ``remedies`` is the list as it would be printed: what decides the first of them
    is timed shortly."""
    if profile.run.signal is not None and profile.run.stopped_by is None:
        return [], [Gap(WHAT, f"the training was ended by signal {profile.run.signal}")]
    budget_s = BUDGET_S
    if remedies is not None:
        remedies, budget_s = remedies[:FIRST], unasked_s(profile)
        if not any(SHORT_S[probe] <= budget_s for probe in _deciding(remedies)):
            return [], []
    subject, computing = choose(profile), computing_request(profile)
    if subject is None and computing is None:
        return [], [Gap(WHAT, "no fetch of a loader was timed: there is nothing to compare with")]
    try:
        with tempfile.TemporaryDirectory(prefix=".bdoc-calibrate-") as folder:
            paths = files_of(subject, profile.run.cwd, is_remote) if subject is not None else []
            questions = list(_about_computing(profile, computing, python))
            if subject is not None:
                questions = [*_about_loading(profile, subject, paths, folder, python), *questions]
            if remedies is not None:
                questions = _short(questions, remedies)
            rows, gaps = _carry_out(questions, folder, budget_s)
            return rows + (_sizes(subject, paths) if subject is not None and questions else []), gaps
    except OSError as error:
        return [], [Gap(WHAT, f"no place for its files: {error.strerror}", "set TMPDIR to a writable folder")]


def unasked_s(profile: Profile) -> float:
    """Seconds that may be spent where nobody asked for it; 0 where they are too few for anything."""
    seconds = min(UNASKED_S, UNASKED_SHARE * profile.run.duration_s)
    return seconds if seconds >= min(SHORT_S.values()) else 0.0


@dataclass(frozen=True)
class Question:
    """What to ask whom: a probe, the interpreter that it needs, and whose rows the answers are."""

    probe: str
    python: str
    request: Request
    loader: str


def _about_loading(
    profile: Profile, subject: Subject, paths: list[str], folder: str, python: str
) -> Iterator[Question]:
    """The surest first."""
    users = _interpreter(profile, subject.loader.pid, python)
    asked = (
        ("reads", sys.executable, reads_request(subject, paths, folder)),
        ("pictures", users, pictures_request(subject, paths)),
        ("moving", users, moving_request(subject)),
    )
    for probe, interpreter, request in asked:
        if request is not None:
            yield Question(probe, interpreter, request, subject.loader.key)


def _about_computing(profile: Profile, found: tuple[int, Request] | None, python: str) -> Iterator[Question]:
    if found is not None:
        pid, request = found
        yield Question("computing", _interpreter(profile, pid, python), request, "")


def _interpreter(profile: Profile, pid: int, python: str) -> str:
    trainer = next((one for one in profile.processes if one.pid == pid), None)
    return (trainer.executable if trainer is not None else "") or python


def _deciding(remedies: Sequence[str]) -> list[str]:
    """The probes that decide what these remedies promise, the first remedy's first."""
    wanted = [probe for one in remedies for probe, known in DECIDES.items() if one in known]
    return list(dict.fromkeys(wanted))


def _short(questions: list[Question], remedies: Sequence[str]) -> list[Question]:
    """What can be asked shortly of what decides these remedies; an accelerator takes longer to start."""
    probes = _deciding(remedies)
    found = [one for one in questions if one.probe in probes and one.request.get("device") != "cuda"]
    short = [replace(one, request={**only(one.request, remedies), "short": True}) for one in found]
    asked = [one for one in short if one.request.get("subjects", True)]
    return sorted(asked, key=lambda one: probes.index(one.probe))


def _carry_out(
    questions: list[Question], folder: str, budget_s: float
) -> tuple[list[Calibration], list[Gap]]:
    rows: list[Calibration] = []
    gaps: list[Gap] = []
    end = time.monotonic() + budget_s
    for one in questions:
        left, short = end - time.monotonic(), "short" in one.request
        if short and left < SHORT_S[one.probe]:
            continue
        answer = (
            ask(one.python, one.probe, one.request, folder, min(LIMIT_S[one.probe], left))
            if left >= LEAST_S
            else Answer(problem="no time was left for it")
        )
        rows += [row for told in answer.rows if (row := _row(one.loader, told)) is not None]
        if answer.interrupted:
            return rows, [*gaps, Gap(WHAT, "it was interrupted")]
        if answer.problem:
            gaps.append(Gap(f"{WHAT} of {one.probe}", answer.problem))
    return rows, gaps


def _sizes(subject: Subject, paths: list[str]) -> list[Calibration]:
    """How large the files are, on average."""
    sizes = [os.path.getsize(path) for path in paths]
    if not sizes:
        return []
    mean = sum(sizes) / len(sizes)
    return [Calibration(subject.loader.key, "files", "sizes", 0.0, 0.0, len(sizes), size_bytes=mean)]


def _row(loader: str, told: dict[str, Any]) -> Calibration | None:
    """A probe runs among the user's modules: what it tells is looked at before it is believed."""
    try:
        row = Calibration(
            loader, str(told["subject"]), str(told["variant"]), float(told["seconds"]), float(told["cpu_s"]),
            int(told["repeats"]), int(told.get("depth", 1)), float(told.get("size_bytes", 0.0)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    numbers = (row.seconds, row.cpu_s, row.size_bytes, row.repeats, row.depth)
    return row if all(math.isfinite(one) and one >= 0 for one in numbers) else None


PROBES = Path(__file__).parent / "probes"
ROWS_AT_MOST = 64
TEXT_AT_MOST = 1 << 20
ENDING_S = 2.0
# Loaded from its file and not by name: the interpreter may be the user's, which need not know this package.
START = """\
import json, runpy, sys
main = runpy.run_path(sys.argv[1])["main"]
main(json.loads(sys.stdin.readline()), lambda **row: print(json.dumps(row), flush=True))"""


@dataclass
class Answer:
    """The rows that came, and what went wrong, "" when nothing did; ``interrupted`` by a signal to us."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    interrupted: bool = False


def ask(python: str, probe: str, request: dict[str, Any], folder: str, seconds: float) -> Answer:
    """Run ``probes/<probe>.py`` for at most ``seconds`` with ``folder`` as its working directory."""
    command = [python, "-B", "-c", START, str(PROBES / f"{probe}.py")]
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Answer(problem=f"{python} could not be started: {error.strerror}")
    problem, interrupted = "", False
    try:
        told = process.communicate(json.dumps(request).encode() + b"\n", timeout=seconds)[0]
        problem = "" if process.returncode == 0 else f"its process ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        told, problem = _end(process), f"it took longer than {seconds:.0f} s"
    except KeyboardInterrupt:
        told, interrupted = _end(process), True
    except BaseException:
        _end(process)
        raise
    return Answer(_rows(told), problem, interrupted)


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """End it with all that it has forked; what it has told by now."""
    try:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: nobody else is in that group
    except ProcessLookupError:
        pass
    try:
        return process.communicate(timeout=ENDING_S)[0]
    except subprocess.TimeoutExpired as late:  # a reader that the kernel does not let go of: leave it behind
        return late.output or b""


def _rows(told: bytes) -> list[dict[str, Any]]:
    """Rows among whatever else the user's modules print."""
    rows = []
    for line in told[:TEXT_AT_MOST].splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and "subject" in row:
            rows.append(row)
    return rows[:ROWS_AT_MOST]
