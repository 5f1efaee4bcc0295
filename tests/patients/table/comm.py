"""Patients that train on two ranks of one machine, over gloo."""

from __future__ import annotations

from tests.patients.patient import NONE, Patient, ids

PATIENTS = [
    Patient(
        name="exchange-bound",
        group="ailment",
        bounds=ids("comm"),
        causes=ids("comm.allreduce"),
        findings=ids("comm-bandwidth-bound"),
        remedies=ids("bigger-batch"),
        twin="bigger-batch",
        never=ids("ddp-no-sync", "ddp-bucket-view", "balance-ranks", "bucket-by-cost"),
        truth="10 MB of gradients are exchanged after each batch of four sentences",
    ),
    Patient(
        name="ddp-accum-sync",
        group="ailment",
        bounds=ids("comm", "cpu"),
        causes=ids("comm.allreduce", "model.compute"),
        findings=ids("ddp-accum-sync"),
        remedies=ids("ddp-no-sync"),
        twin="ddp-no-sync",
        never=ids("balance-ranks", "bucket-by-cost"),
        truth="the optimizer steps after four backward passes, each of which exchanges 8 MB of gradients",
    ),
    Patient(
        name="rank-straggler",
        group="ailment",
        bounds=ids("comm"),
        causes=ids("comm.straggler"),
        findings=ids("rank-straggler"),
        remedies=ids("balance-ranks"),
        twin="balance-ranks",
        never=ids("bigger-batch", "ddp-no-sync"),
        truth="one rank's batches sleep 8 ms for the accelerator, the other's 24 ms",
    ),
    Patient(
        name="two-ranks-healthy",
        group="healthy",
        bounds=ids("balanced"),
        causes=ids("none"),
        remedies=NONE,
        truth="both ranks sleep 50 ms for the accelerator in each step, and exchange 20 kB",
    ),
]
