"""Runs of a patient: plain, cured, and watched by bdoc, each with the script's own timings."""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.run import BDOC, execute
from tests.patients.confine import confined
from tests.patients.expected import Patient, script

DATA = Path(tempfile.gettempdir()) / "bdoc-patients"


@dataclass(frozen=True)
class Plain:
    """One run without bdoc."""

    status: int
    stdout: str
    truth: dict[str, Any]


@dataclass(frozen=True)
class Watched:
    """One run under bdoc and the report drawn from it; no report when bdoc gave none."""

    status: int
    stdout: str
    stderr: str
    truth: dict[str, Any]
    report: dict[str, Any] | None


def plain(patient: Patient, folder: Path, length: list[str], *, cured: Sequence[str] = ()) -> Plain:
    """Run the script as it is, or with the arguments that cure it."""
    truth = folder / "truth-plain.json"
    command = [sys.executable, *_call(patient, truth, length), *cured]
    with surroundings(patient) as prefix:
        done = execute([*prefix, *command])
    return Plain(done.returncode, done.stdout, _read(truth))


def watched(patient: Patient, folder: Path, length: list[str]) -> Watched:
    """Run the sick script under bdoc, then ask for its report."""
    truth, profile = folder / "truth-watched.json", folder / "profile.json"
    command = [*BDOC, "run", "--quiet", "-o", str(profile), *_call(patient, truth, length)]
    with surroundings(patient) as prefix:
        done = execute([*prefix, *command])
    said = execute([*BDOC, "report", str(profile), "--format", "json"])
    report = json.loads(said.stdout) if said.returncode == 0 else None
    return Watched(done.returncode, done.stdout, done.stderr + said.stderr, _read(truth), report)


def limited(patient: Patient) -> bool:
    """Whether the disk can be held to what the patient wants."""
    with surroundings(patient, strangers=False) as prefix:
        return bool(prefix)


def _call(patient: Patient, truth: Path, length: list[str]) -> list[str]:
    truth.unlink(missing_ok=True)
    return [str(script(patient)), "--data", str(DATA), "--truth", str(truth), *length]


def _read(truth: Path) -> dict[str, Any]:
    return json.loads(truth.read_text()) if truth.exists() else {}


def workers_advised(cure: str | None, report: dict[str, Any]) -> list[str]:
    """The argument with the number of workers that the report advises, where workers are the cure."""
    remedy = next((one for one in report["remedies"] if one["id"] == cure == "workers-auto"), None)
    advised = re.search(r"num_workers=(\d+)", remedy["fix"]["snippet"] or "") if remedy else None
    return ["--workers", advised[1]] if advised else []


@contextlib.contextmanager
def surroundings(patient: Patient, *, strangers: bool = True) -> Iterator[list[str]]:
    """What the patient needs around it: a slower disk, strangers on the cores."""
    DATA.mkdir(parents=True, exist_ok=True)
    spin = [sys.executable, "-S", "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(patient.strangers if strangers else 0)]
    try:
        with confined(patient, DATA) as prefix:
            yield prefix
    finally:
        for other in others:
            other.kill()
            other.wait()
