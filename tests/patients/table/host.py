"""Patients whose loop stops for something beside the model."""

from __future__ import annotations

from tests.patients.patient import Patient, ids

PATIENTS = [
    Patient(
        name="gil-thread",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("host.python"),
        findings=ids("gil-contention"),
        remedies=ids("processes-not-threads"),
        twin="processes-not-threads",
        wait_tolerance=0.05,
        truth="a thread counts in Python beside a loop that gives the lock away in each backward",
    ),
    Patient(
        name="logging-blocking",
        group="ailment",
        bounds=ids("cpu", "io"),
        causes=ids("host.logging"),
        findings=ids("logging-blocking"),
        remedies=ids("log-every-n", "async-writer"),
        twin="log-every-n",
        truth="three log lines a step, each forced to the disk",
    ),
    Patient(
        name="checkpoint-blocking",
        group="ailment",
        bounds=ids("cpu", "io"),
        causes=ids("host.checkpoint"),
        findings=ids("checkpoint-blocking"),
        remedies=ids("checkpoint-less", "checkpoint-async"),
        twin="checkpoint-less",
        truth="26 MB saved every ten steps of 3 ms",
    ),
    Patient(
        name="slow-start",
        group="ailment",
        bounds=ids("balanced"),
        causes=ids("none"),
        findings=ids("startup-dominated"),
        twin="cache-index",
        truth="2048 files are looked into for 2.5 ms each before 75 healthy steps of 80 ms",
    ),
    Patient(
        name="quota-throttled",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("model.compute", "model.threads", "input.oversubscribed"),
        findings=ids("cgroup-cpu-throttled"),
        remedies=ids("match-threads-to-quota", "more-cores"),
        twin="match-threads-to-quota",
        wait_tolerance=None,  # throttled threads stop as they leave a system call, be it one of the hooks'
        quota_cores=0.5,
        truth="a model on two threads in a group that may use half a core's time",
    ),
    Patient(
        name="weights-to-log",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("host.logging"),
        findings=ids("logging-blocking"),
        remedies=ids("log-every-n", "async-writer"),
        twin="log-every-n",
        truth="12,000 weights a step become text in a file; the step itself is small",
    ),
    Patient(
        name="checkpoint-each-epoch",
        group="ailment",
        bounds=ids("cpu", "io"),
        causes=ids("host.checkpoint"),
        findings=ids("checkpoint-blocking"),
        remedies=ids("checkpoint-less", "checkpoint-async"),
        twin="checkpoint-less",
        truth="82 MB are saved after every ten small steps",
    ),
]
