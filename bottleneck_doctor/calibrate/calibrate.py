"""Times what the findings would advise, once the training is gone: a few seconds, bounded, never an error."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..model.calibration import Calibration
from ..model.profile import Gap, Profile
from .ask import Answer, ask
from .computing import computing_request
from .subjects import Request, Subject, choose, files_of, moving_request, pictures_request, reads_request

WHAT = "calibration"
BUDGET_S = 12.0  # in all, at the very most; usually two to five
# each; importing torch is part of the last two
LIMIT_S = {"reads": 3.0, "pictures": 3.0, "moving": 6.0, "computing": 9.0}
LEAST_S = 0.5  # of the budget, or a probe is not begun


def calibrate(
    profile: Profile, python: str, is_remote: Callable[[str], bool]
) -> tuple[list[Calibration], list[Gap]]:
    """Rows for the profile, and what could not be timed. ``python`` runs what needs the user's packages,
    unless the training told which interpreter it was. An interrupt ends it; what is there is kept."""
    if profile.run.signal is not None and profile.run.stopped_by is None:
        return [], [Gap(WHAT, f"the training was ended by signal {profile.run.signal}")]
    subject, computing = choose(profile), computing_request(profile)
    if subject is None and computing is None:
        return [], [Gap(WHAT, "no fetch of a loader was timed: there is nothing to compare with")]
    try:
        with tempfile.TemporaryDirectory(prefix=".bdoc-calibrate-") as folder:
            paths = files_of(subject, profile.run.cwd, is_remote) if subject is not None else []
            questions = list(_about_computing(profile, computing, python))
            if subject is not None:
                questions = [*_about_loading(profile, subject, paths, folder, python), *questions]
            rows, gaps = _carry_out(questions, folder)
            return rows + (_sizes(subject, paths) if subject is not None else []), gaps
    except OSError as error:
        return [], [Gap(WHAT, f"no place for its files: {error.strerror}", "set TMPDIR to a writable folder")]


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


def _carry_out(questions: list[Question], folder: str) -> tuple[list[Calibration], list[Gap]]:
    rows: list[Calibration] = []
    gaps: list[Gap] = []
    end = time.monotonic() + BUDGET_S
    for one in questions:
        left = end - time.monotonic()
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
