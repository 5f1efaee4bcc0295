"""One GPU patient from its first run to its row: bdoc's words beside the script's own events."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu.expected import script
from tests.gpu.measure import Ward
from tests.lab.judge import Judgement, Taken, judge
from tests.lab.kept import put
from tests.lab.patients import workers_advised
from tests.patients.patient import Patient

Truth = dict[str, Any]
Runs = Sequence[Truth]


@dataclass(frozen=True)
class Seen:
    """A judged patient, and how busy the device was: by bdoc, and by kernel seconds over the plain step."""

    judgement: Judgement
    busy: float | None = None
    busy_truth: float | None = None


def examine(patient: Patient, ward: Ward, repeats: int, keep: Path | None = None) -> Seen:
    """One watched run, one under the script's own profiler, then sick and cured in turn."""
    said, told, profile = ward.watched(script(patient))
    report = ward.report(profile)
    traced = ward.traced(script(patient))
    sick, cured, same = [], [], True
    for _ in range(repeats):
        output, truth = ward.plain(script(patient))
        sick.append(truth)
        same = same and output == said
        if patient.twin:
            cured.append(ward.plain(script(patient), "--cured", *workers_advised(patient.twin, report))[1])
    taken = take(patient, told, traced, sick, cured, same)
    if keep is not None:
        put(keep, patient, profile, taken)
    return judged(patient, report, taken)


def take(patient: Patient, told: Truth, traced: Truth, sick: Runs, cured: Runs, same: bool) -> Taken:
    """What was measured, as it is kept: ``told`` is the truth of the watched run itself."""
    scope = f"{patient.scope}_mean_s"
    step_s = statistics.median(one["step_mean_s"] for one in sick)
    truth = {
        **told,
        "step_mean_s": told[scope],
        "wait_fraction": told["exposed_wait_fraction"],
        "busy_fraction": min(1.0, traced["kernel_s"] / step_s) if traced["kernels"] else None,
        "kernels": traced["kernels"],
    }
    return Taken(truth, [one[scope] for one in sick], [one[scope] for one in cured], False, same)


def judged(patient: Patient, report: dict[str, Any], taken: Taken) -> Seen:
    """The report held against what is known and what was measured."""
    busy = report["metrics"]["gpu_busy_fraction"]["value"]
    return Seen(judge(patient, of_device(report), taken), busy, taken.truth["busy_fraction"])


def of_device(report: dict[str, Any]) -> dict[str, Any]:
    """The report with the data wait that counts here: that in which the device had nothing to do."""
    exposed = report["metrics"]["exposed_data_wait_fraction"]
    return {**report, "metrics": {**report["metrics"], "data_wait_fraction": exposed}}
