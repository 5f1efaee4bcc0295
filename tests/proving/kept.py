"""What a patient's proof is judged from, kept in a file so that it can be judged again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.lab import golden
from tests.lab.kept import placeless
from tests.patients.expected import Patient
from tests.proving.judge import Evidence

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
