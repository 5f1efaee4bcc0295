"""Patients that look like something else."""

from __future__ import annotations

from tests.patients.patient import NONE, Patient, ids

PATIENTS = [
    Patient(
        name="sleeping-loader",
        group="decoy",
        bounds=ids("latency"),
        causes=ids("input.wait"),
        findings=ids("loader-in-main"),
        remedies=ids("workers-auto", "thread-prefetch"),
        twin="workers-auto",
        truth="24 ms asleep a batch in the main process: neither CPU nor storage",
    ),
    Patient(
        name="locked-loader",
        group="decoy",
        bounds=ids("latency"),
        causes=ids("input.wait"),
        never=ids("workers-auto"),
        truth="24 ms a batch inside one lock that all workers share",
    ),
    Patient(
        name="gzip-decoy",
        group="decoy",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        remedies=ids("reencode-offline", "precompute-deterministic", "cache-decoded-ram", "more-cores"),
        twin="reencode-offline",
        truth="files that the page cache holds, unpacked by gzip; raw, they need no CPU",
    ),
    Patient(
        name="asleep-in-line",
        group="decoy",
        bounds=ids("latency"),
        causes=ids("input.wait"),
        remedies=ids("workers-auto"),
        twin="workers-auto",
        never=ids("columnar-numpy", "more-cores", "cheaper-preprocess"),
        truth="stacks show one line of the data set, where two workers sleep 24 ms a batch",
    ),
    Patient(
        name="foreign-load",
        group="decoy",
        bounds=ids("cpu"),
        causes=ids("input.preprocess"),
        strangers=2,
        truth="12 ms of thread CPU a batch while two strangers spin on the same two cores",
    ),
    Patient(
        name="prefetch-thread",
        group="decoy",
        bounds=ids("balanced"),
        causes=ids("none"),
        remedies=NONE,
        truth="a thread waits 13 ms a batch, the loop takes each from a queue that is never empty",
    ),
    Patient(
        name="disk-hammered",
        group="decoy",
        bounds=ids("balanced"),
        causes=ids("none"),
        remedies=NONE,
        disk_strangers=1,
        truth="80 ms a step asleep for the accelerator, data in memory, and a stranger at the disk",
    ),
]
