"""Other machines made of this one: fewer cores, a quota, a neighbour."""

import os
from dataclasses import dataclass, replace

from tests.lab.golden import GOLDEN, names
from tests.patients.expected import PATIENTS, Patient

KEPT = GOLDEN / "settings"


@dataclass(frozen=True)
class Setting:
    """What differs from two free cores; ``patients`` are those that are recorded in it."""

    title: str
    patients: tuple[str, ...] = ()
    cores: int = 2
    quota_cores: float | None = None
    strangers: int = 0


SICK_IN_DATA = (
    "loader-in-main", "decode-bound", "repeated-deterministic-preprocess", "per-sample-indexing",
    "json-per-sample", "workers-too-few",
)  # fmt: skip
SETTINGS = {
    "usual": Setting("two cores"),
    "one-core": Setting("one core", SICK_IN_DATA, cores=1),
    "quota": Setting("a quota of 1.5 cores", SICK_IN_DATA, quota_cores=1.5),
    "neighbour": Setting("a neighbour that keeps one of two cores busy", SICK_IN_DATA, strangers=1),
}


def enter(setting: Setting) -> None:
    """Bind this process, and so what it starts, to the setting's cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setting.cores])


def placed(patient: Patient, setting: Setting) -> Patient:
    """The patient in this setting."""
    quota = setting.quota_cores if setting.quota_cores is not None else patient.quota_cores
    return replace(patient, strangers=patient.strangers + setting.strangers, quota_cores=quota)


def recorded(name: str) -> list[Patient]:
    """The patients that were recorded in a setting."""
    kept = names(KEPT / name, ".taken.json")
    return [placed(one, SETTINGS[name]) for one in PATIENTS if one.name in kept]
