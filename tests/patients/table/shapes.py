"""Trainings of other shapes: no loader, several optimizers, evaluation."""

from __future__ import annotations

from tests.patients.patient import Patient, ids

PATIENTS = [
    Patient(
        name="get-batch",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("input.preprocess", "host.python"),
        findings=ids("loader-in-main", "python-sample-code-hot"),
        remedies=ids("precompute-deterministic", "columnar-numpy", "workers-auto"),
        twin="precompute-deterministic",
        truth="no loader: a function lowers and encodes 12,000 letters in Python for each step",
    ),
    Patient(
        name="generator-source",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("input.preprocess", "host.python"),
        remedies=ids("thread-prefetch"),
        twin="thread-prefetch",
        truth="no loader: a generator sorts 130,000 numbers for each step, then the step sleeps 9 ms",
    ),
    Patient(
        name="inference-only",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        findings=ids("loader-in-main"),
        remedies=ids("workers-auto"),
        twin="workers-auto",
        truth="loader-in-main without backward and optimizer",
    ),
    Patient(
        name="gradient-accumulation",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        findings=ids("loader-in-main"),
        remedies=ids("workers-auto"),
        twin="workers-auto",
        truth="loader-in-main with one optimizer step in four batches",
    ),
    Patient(
        name="two-optimizers",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        findings=ids("loader-in-main"),
        remedies=ids("workers-auto"),
        twin="workers-auto",
        truth="loader-in-main with two optimizer steps a batch",
    ),
    Patient(
        name="evaluation-heavy",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("host.evaluation"),
        findings=ids("evaluation-heavy"),
        remedies=ids("eval-less"),
        twin="eval-less",
        scope="run",
        truth="each epoch of sixty steps is followed by 200 batches of evaluation, which take longer",
    ),
    Patient(
        name="validation-loader-slow",
        group="shape",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        remedies=ids(
            "cache-decoded-ram", "precompute-deterministic", "eval-workers", "eval-less", "workers-auto"
        ),
        twin="cache-decoded-ram",
        scope="run",
        truth="twenty small steps, then a validation whose loader computes 400 spectra in the main process",
    ),
]
