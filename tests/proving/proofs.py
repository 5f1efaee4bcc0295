"""One patient under ``bdoc prove``: the proof, what its trials wrote, and what is kept of it."""

import json
import os
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.lab import golden
from tests.lab.kept import placeless
from tests.lab.options import tell
from tests.lab.patients import DATA, surroundings
from tests.lab.run import BDOC, MARK, execute, left_running
from tests.patients.expected import Patient, script
from tests.patients.ledger import WARMUP_STEPS
from tests.proving.judge import Evidence

LIMIT_S = 900.0
SETTLING_S = 10.0
SHARED = Path("/dev/shm")


def proven(patient: Patient, folder: Path, how: list[str]) -> Evidence | None:
    """What ``bdoc prove`` with these options brings on the slow script; None, and why, without a proof."""
    truths, mark, before = folder / "truths", uuid.uuid4().hex, _shared()
    truths.mkdir()
    file = folder / "proof.json"
    prove = [*BDOC, "prove", "--quiet", "-o", str(file), *how]
    target = [str(script(patient)), "--data", str(DATA), "--truth", str(truths)]
    with surroundings(patient) as prefix:
        done = execute([*prefix, *prove, *target], limit_s=LIMIT_S, **{MARK: mark})
    left = left_running(mark) + [f"shared memory {name}" for name in _staying(before)]
    told = [json.loads(file.read_text()) for file in sorted(truths.glob("*.json"))]
    if done.returncode or not file.exists():
        tell(f"{patient.name}: bdoc gave no proof\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
        return None
    return Evidence(json.loads(file.read_text()), [], [], told, left)


def as_told(patient: Patient, proof: dict[str, Any]) -> list[str]:
    """The arguments that cure the patient; the number of workers is the one that was tried."""
    row = next((one for one in proof["rows"] if one["id"] == patient.twin == "workers-auto"), None)
    tried = [one["options"].get("arguments", {}) for one in row["treatments"]] if row else []
    workers = [one["num_workers"] for one in tried if "num_workers" in one]
    return ["--cured", *(["--workers", str(workers[0])] if workers else [])]


def as_long(told: list[dict[str, Any]]) -> list[str]:
    """The argument that makes a run by hand as long as bdoc's were: the same epochs, and as much of them."""
    steps = [int(one["steps"]) for one in told if one["order"]]
    return ["--steps", str(max(steps) + WARMUP_STEPS + 1)] if steps else []


def _shared() -> set[str]:
    return set(os.listdir(SHARED)) if SHARED.is_dir() else set()


def _staying(before: set[str]) -> list[str]:
    """New blocks of shared memory, less those of other trainings of this machine, which come and go."""
    fresh = _shared() - before
    until = time.monotonic() + SETTLING_S
    while fresh and time.monotonic() < until:
        time.sleep(0.5)
        fresh &= _shared()
    return sorted(fresh)


ROW = "id remedies treatments predicted measured verdict parity".split()
TOLD = "order first_losses step_mean_s".split()
PROOF = "winner cost baseline_s noise steps".split()


def put(folder: Path, patient: Patient, taken: Evidence) -> None:
    """File it under the patient's name."""
    golden.write(folder, {f"{patient.name}.json": placeless(json.dumps(asdict(taken))) + "\n"})


def again(folder: Path, patient: Patient) -> Evidence | None:
    """What was kept of this patient; ``None`` where nothing was."""
    if patient.name not in golden.names(folder, ".json"):
        return None
    return Evidence(**json.loads(golden.read(folder, f"{patient.name}.json")))


def shortened(taken: Evidence) -> Evidence:
    """Without what nobody judges: patches, words, and the timings that scripts took of themselves."""
    proof = {name: taken.proof[name] for name in PROOF}
    proof["rows"] = [{name: one[name] for name in ROW} for one in taken.proof["rows"]]
    told = [{name: one[name] for name in TOLD} for one in taken.told]
    return Evidence(proof, taken.sick_s, taken.cured_s, told, taken.left)
