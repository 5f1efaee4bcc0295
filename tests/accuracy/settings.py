"""Other machines made of this one: fewer cores, a quota, a neighbour, another number of torch's threads."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from tests.lab.golden import GOLDEN, names
from tests.patients.expected import PATIENTS, Patient

KEPT = GOLDEN / "settings"


@dataclass(frozen=True)
class Setting:
    """What differs from two free cores and torch's own number of threads; ``patients`` are those that are
    recorded in it."""

    title: str
    patients: tuple[str, ...] = ()
    cores: int = 2
    quota_cores: float | None = None
    strangers: int = 0
    threads: int | None = None


SICK_IN_DATA = (
    "loader-in-main", "decode-bound", "repeated-deterministic-preprocess", "per-sample-indexing",
    "json-per-sample", "workers-too-few",
)  # fmt: skip
ON_OWN_THREADS = ("weights-to-log", "checkpoint-each-epoch", "spawned-workers", "fsync-below-save")
SETTINGS = {
    "usual": Setting("two cores"),
    "one-core": Setting("one core", SICK_IN_DATA, cores=1),
    "quota": Setting("a quota of 1.5 cores", SICK_IN_DATA, quota_cores=1.5),
    "neighbour": Setting("a neighbour that keeps one of two cores busy", SICK_IN_DATA, strangers=1),
    "one-thread": Setting("one thread of torch on two cores", ON_OWN_THREADS, threads=1),
    "four-threads": Setting("four threads of torch on two cores", ON_OWN_THREADS, threads=4),
}


def enter(setting: Setting) -> None:
    """Bind this process, and so what it starts, to the setting's cores and threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setting.cores])
    if setting.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(setting.threads)


def placed(patient: Patient, setting: Setting) -> Patient:
    """The patient in this setting."""
    quota = setting.quota_cores if setting.quota_cores is not None else patient.quota_cores
    return replace(patient, strangers=patient.strangers + setting.strangers, quota_cores=quota)


def recorded(name: str) -> list[Patient]:
    """The patients that were recorded in a setting."""
    kept = names(KEPT / name, ".taken.json")
    return [placed(one, SETTINGS[name]) for one in PATIENTS if one.name in kept]
