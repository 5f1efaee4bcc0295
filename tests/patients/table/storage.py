"""Patients that wait for disks and networks."""

from __future__ import annotations

from tests.patients.patient import Patient, ReadLimit, ids

PATIENTS = [
    Patient(
        name="storage-latency-bound",
        group="ailment",
        bounds=ids("io"),
        causes=ids("input.storage"),
        findings=ids("storage-latency-bound", "workers-too-few"),
        remedies=ids("workers-auto"),
        twin="workers-auto",
        truth="one worker reads 512 random 4 KB blocks a batch past the page cache, one at a time",
    ),
    Patient(
        name="storage-bandwidth-bound",
        group="ailment",
        bounds=ids("io"),
        causes=ids("input.storage"),
        findings=ids("storage-bandwidth-bound"),
        remedies=ids("stage-to-fast-storage", "cache-bytes-ram"),
        twin="stage-to-fast-storage",
        never=ids("workers-auto"),
        limit=ReadLimit(bytes_per_s=800_000_000),
        truth="four workers read 16 MB a batch past the page cache from a disk held to 800 MB/s",
    ),
    Patient(
        name="small-files",
        group="ailment",
        bounds=ids("io"),
        causes=ids("input.storage"),
        findings=ids("small-files", "storage-bandwidth-bound"),
        remedies=ids("pack-shards", "cache-bytes-ram"),
        twin="pack-shards",
        limit=ReadLimit(reads_per_s=6000),
        bounds_without_limit=ids("io", "cpu"),
        truth="128 cold 16 KB files a batch from a disk held to 6000 reads a second; packed: one read",
    ),
    Patient(
        name="remote-storage-latency",
        group="ailment",
        bounds=ids("io"),
        causes=ids("input.network"),
        findings=ids("remote-storage-latency", "workers-too-few"),
        remedies=ids("workers-auto", "bigger-requests", "local-mirror", "remote-streaming"),
        twin="workers-auto",
        truth="a TCP server answers each of eight requests a batch after 4 ms",
    ),
]
