"""Healthy trainings, and runs too short to be judged: nothing may be promised."""

from __future__ import annotations

from tests.patients.patient import NONE, Patient, ids

PATIENTS = [
    Patient(
        name="model-compute",
        group="healthy",
        bounds=ids("cpu"),
        causes=ids("model.compute"),
        remedies=NONE,
        truth="a table in memory under 5 million weights that the CPU multiplies",
    ),
    Patient(
        name="healthy-balanced",
        group="healthy",
        bounds=ids("balanced"),
        causes=ids("none"),
        remedies=NONE,
        truth="the step sleeps 80 ms for the accelerator, two workers need 1 ms a batch",
    ),
    Patient(
        name="lbfgs-closure",
        group="healthy",
        bounds=ids("cpu"),
        causes=ids("model.compute", "host.launch"),
        remedies=NONE,
        truth="the optimizer calls the model about ten times for each batch of a table in memory",
    ),
    Patient(
        name="too-short",
        group="healthy",
        bounds=ids("inconclusive"),
        causes=ids("none"),
        remedies=NONE,
        wait_tolerance=None,
        truth="three steps",
    ),
]
