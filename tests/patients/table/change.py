"""Patients that change while they run, and two that only seem to."""

from __future__ import annotations

from tests.patients.patient import NONE, Patient, ids

CHANGES = ids("bound-what-grows")

PATIENTS = [
    Patient(
        name="cold-first-epoch",
        group="change",
        bounds=ids("balanced", "cpu"),
        causes=ids("none", "model.compute"),
        remedies=NONE,
        wait_tolerance=None,
        truth="sixteen reads of 1 MB a batch past the page cache in the first epoch, none later",
    ),
    Patient(
        name="mode-switch",
        group="change",
        bounds=ids("io"),
        causes=ids("input.storage"),
        findings=ids("loader-in-main"),
        remedies=ids("workers-auto", "readahead-hints", "stage-to-fast-storage"),
        wait_tolerance=None,
        truth="sixteen reads of 1 MB a batch past the page cache in the second half of the run",
    ),
    Patient(
        name="drifting",
        group="change",
        bounds=ids("cpu"),
        causes=ids("host.python", "model.compute"),
        findings=ids("step-time-drift"),
        remedies=ids("bound-what-grows"),
        twin="bound-what-grows",
        truth="every step compares its loss with 256 more numbers than the last one did",
    ),
    Patient(
        name="gc-pauses",
        group="change",
        bounds=ids("cpu"),
        causes=ids("host.gc"),
        findings=ids("gc-pauses"),
        remedies=ids("gc-freeze", "gc-interval"),
        twin="gc-freeze",
        truth="600,000 records live on, and 4,000 new objects a step make Python look through all of them",
    ),
    Patient(
        name="periodic-evaluation",
        group="change",
        bounds=ids("cpu"),
        causes=ids("host.evaluation"),
        findings=ids("evaluation-heavy"),
        remedies=ids("eval-less"),
        twin="eval-less",
        truth="every fortieth step, the model also computes 100,000 held-out rows",
    ),
    Patient(
        name="bimodal-batches",
        group="decoy",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        never=CHANGES,
        truth="2.4 and 16 ms of thread CPU a batch by turns, in the main process",
    ),
    Patient(
        name="single-stall",
        group="decoy",
        bounds=ids("cpu"),
        causes=ids("model.compute"),
        remedies=NONE,
        never=CHANGES,
        truth="one step of 600 sleeps for three seconds; all others compute",
    ),
]
