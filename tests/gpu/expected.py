"""The GPU patients, and what must be said of each: known by construction, before anyone measures."""

from pathlib import Path

from tests.patients.patient import NONE, Patient, ids

FOLDER = Path(__file__).with_name("patients")
COMPUTES = ids("device.compute")
LAUNCHES = ids("cuda-graphs", "torch-compile")


def script(patient: Patient) -> Path:
    """The patient's training script."""
    return FOLDER / (patient.name.replace("-", "_") + ".py")


def _sick(name: str, bound: str, causes: str, remedies: str, twin: str, truth: str, **more: str) -> Patient:
    words = ids(*bound.split()), ids(*causes.split()), ids(*remedies.split())
    scope = more.get("scope", "sample")
    return Patient(name, "ailment", words[0], words[1], truth, remedies=words[2], twin=twin, scope=scope)


def _well(name: str, group: str, truth: str) -> Patient:
    never = LAUNCHES | ids("workers-auto", "defer-readback", "pin-and-nonblocking", "device-prefetcher")
    return Patient(
        name, group, ids("gpu"), COMPUTES, truth, remedies=NONE, never=never, scope="sample"
    )  # fmt: skip


PATIENTS = (
    _sick("starved-by-cpu", "cpu", "input.preprocess", "workers-auto", "workers-auto",
          "16 ms of decoding a batch in the loop's own thread, 4 ms of device work"),
    _sick("starved-by-storage", "io", "input.storage", "workers-auto", "workers-auto",
          "one worker reads cold pages for 16 ms a batch, 3 ms of device work"),
    _sick("pageable-copies", "gpu", "device.transfer", "pin-and-nonblocking", "pin-and-nonblocking",
          "10 ms of copying a batch from pageable memory in a blocking call, 6 ms of kernels"),
    _sick("item-each-step", "cpu", "host.sync host.python", "defer-readback",
          "defer-readback", "the loss is read after each step, and 4 ms of Python follow"),
    _sick("launch-bound", "cpu", "host.launch", "cuda-graphs torch-compile bigger-batch", "cuda-graphs",
          "120 tiny blocks: a thousand kernels of a few microseconds"),
    _sick("full-precision", "gpu", "device.compute", "tf32 amp", "tf32",
          "14 ms of products in plain float32 on a device with tensor cores"),
    _sick("batch-too-small", "gpu cpu", "device.underfilled host.launch device.compute",
          "bigger-batch cuda-graphs", "bigger-batch",
          "a recurrent network over 8 sequences: each word waits for the word before it"),
    _sick("allocator-churn", "gpu", "device.memory", "drop-empty-cache", "drop-empty-cache",
          "empty_cache after every step of 8 ms"),
    _sick("evaluation-heavy", "gpu", "host.evaluation", "eval-less", "eval-less",
          "120 batches are evaluated after every 30 steps", scope="run"),
    _sick("plain-convolutions", "gpu", "device.compute", "amp channels-last cudnn-benchmark tf32", "amp",
          "convolutions in float32, channels first, not autotuned"),
    _sick("optimizer-for-loop", "cpu", "host.launch", "optimizer-fused", "optimizer-fused",
          "AdamW steps through 200 tensors of 64 by 64 in a for-loop"),
    _sick("attention-unfused", "gpu", "device.compute", "sdpa-attention", "sdpa-attention",
          "scores of 2048 by 2048 for 64 heads go through memory"),
    _well("saturated", "healthy", "14 ms of large products in 16 bits"),
    _well("many-items", "decoy", "three readbacks in a step of 20 ms of large products"),
    _well("prefetcher", "decoy", "64 MB a step copied on a second stream behind 14 ms of products"),
    _well("graphed", "decoy", "the whole step is one CUDA graph of 10 ms"),
    _well("compiled", "decoy", "torch.compile over 14 ms of large products"),
    _well("accumulating", "decoy", "float16 with a gradient scaler, two batches a step, 12 ms a batch"),
)  # fmt: skip
