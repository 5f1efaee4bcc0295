"""Patients whose model computes badly on the CPU, and one whose model computes well."""

from __future__ import annotations

from tests.patients.patient import NONE, Patient, ids

# One thread per patient: where the other core idles, or the processor knows bfloat16, these are right too.
ALSO = ids("cpu-bf16", "cpu-fp32-precision-medium", "set-threads")
COMPUTES = ids("model.compute", "model.threads")

PATIENTS = [
    Patient(
        name="optimizer-for-loop",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("host.launch", "model.compute"),
        findings=ids("optimizer-step-slow"),
        remedies=ids("optimizer-fused"),
        twin="optimizer-fused",
        truth="AdamW steps through 300 tensors of 48 by 48 in a for-loop",
    ),
    Patient(
        name="dispatch-bound",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("host.launch"),
        findings=ids("dispatch-bound"),
        remedies=ids("fuse-operators", "torch-compile"),
        twin="fuse-operators",
        truth="96 networks of width 16 in a Python loop, batch 8",
    ),
    Patient(
        name="embedding-dense",
        group="ailment",
        bounds=ids("cpu"),
        causes=COMPUTES,
        findings=ids("embedding-gradients-dense"),
        remedies=ids("sparse-gradients"),
        twin="sparse-gradients",
        truth="Adam updates 200 000 rows, of which a batch of 512 pairs looks up at most 1 024",
    ),
    Patient(
        name="host-python",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("host.python"),
        findings=ids("host-python-hot"),
        remedies=ids("vectorise-loop-code", "metrics-less"),
        twin="vectorise-loop-code",
        truth="a pure Python loop over 128 000 scores after each step of two small layers",
    ),
    Patient(
        name="anomaly-mode",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("model.compute", "host.launch", "host.python"),
        findings=ids("debug-mode-on"),
        remedies=ids("drop-debug"),
        twin="drop-debug",
        truth="anomaly detection over 16 layers of width 256",
    ),
    Patient(
        name="attention-unfused",
        group="ailment",
        bounds=ids("cpu"),
        causes=COMPUTES,
        findings=ids("attention-unfused"),
        remedies=ids("sdpa-attention") | ALSO,
        twin="sdpa-attention",
        truth="scores of 512 by 512 for 8 heads are written to memory and read again, in two layers",
    ),
    Patient(
        name="padding-waste",
        group="ailment",
        bounds=ids("cpu"),
        causes=COMPUTES,
        findings=ids("padding-waste"),
        remedies=ids("bucket-by-cost", "sequence-packing") | ALSO,
        twin="bucket-by-cost",
        truth="lengths of 10 and an exponential tail with mean 40, padded to the longest of 32",
    ),
    Patient(
        name="one-thread",
        group="ailment",
        bounds=ids("cpu"),
        causes=ids("model.threads"),
        findings=ids("cpu-threads-misset"),
        remedies=ids("set-threads"),
        twin="set-threads",
        truth="one thread on two cores; with strangers on them nothing may be said",
    ),
    Patient(
        name="healthy-products",
        group="healthy",
        bounds=ids("cpu"),
        causes=ids("model.compute"),
        remedies=NONE,
        never=ids("cpu-bf16", "fuse-operators", "optimizer-fused", "set-threads", "torch-compile"),
        truth="products of 128 by 1024 by 1024, threads for all cores, AdamW fused, precision medium",
    ),
]
