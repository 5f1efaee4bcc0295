"""The thresholds that pages quote are those of the code."""

from typing import Any

import pytest

from bottleneck_doctor.analyse import inputs, memory, predict, shares
from bottleneck_doctor.findings import device_compute, facts, ranks, registry, remedies, storage, workers
from bottleneck_doctor.findings import memory as kept

QUOTED = {
    "storage-latency-bound": [
        ("for {:g} % of the step", 100 * facts.WAIT_SHARE), ("be {} times as fast", facts.PAYS),
        ("below {:.0f} KiB", inputs.LARGE_READ_BYTES / 1024), ("than {:g} large", inputs.LARGE_QUEUE),
        ("or {:g} small", inputs.SMALL_QUEUE), ("reached to {:g} %", 100 * shares.NEARLY_ALL),
    ],
    "small-files": [("least {} opens", shares.ALL_BUT_NOISE), ("least {} of the time", shares.LARGE_PART)],
    "container-format-misuse": [("take {} of the time", shares.NOTICED)],
    "decode-bound": [("at least {} of a batch's CPU", shares.LARGE_PART)],
    "augment-bound": [("at least {} of a batch's CPU", shares.LARGE_PART)],
    "collate-bound": [("more than {} of a fetch's CPU", shares.LARGE_PART)],
    "memory-pressure": [
        ("least {} pages", memory.LOOP_FAULTS_AT_LEAST), ("least {} times as far", kept.STRAIGHT),
        ("and {} of the bytes", shares.LARGE_PART), ("for {} of the time", shares.NOTICED),
    ],
    "pages-mapped-anew": [
        ("least {} faults", memory.PAGES_AT_LEAST), ("({:.1f} µs where", memory.FAULT_S * 1e6),
        ("be {} times as fast", predict.WORTH), ("below ×{}", kept.HINT),
    ],
    "comm-bandwidth-bound": [("be {} times as fast", facts.PAYS)],
    "rank-straggler": [("in {:g} % of the steps", 100 * ranks.SAME)],
    "ddp-accum-sync": [("least {} exchanges", ranks.ACCUMULATES)],
    "ddp-overhead-flags": [("fewer than {} buckets", ranks.FEW), ("more than {} buckets", ranks.MANY)],
    "launch-bound": [("less than {} of the step", device_compute.BUSY_SHARE)],
    "batch-too-small": [("below {} [", device_compute.PEAK_SHARE), ("below {} of the", device_compute.FULL)],
    "cudnn-autotune-off": [("at most {:g} new shapes", device_compute.SHAPES)],
    "gpu-hw-degraded": [("least {} busy", shares.FEW_SAMPLES), ("below {} of the high", shares.NEARLY_ALL)],
    "workers-too-few": [("busy for {} of", workers.BUSY)],
    "ipc-overhead": [("above {:g} % of the step", 100 * facts.WAIT_SHARE)],
    "cpu-bf16-unused": [("at least {} of the operators' time", shares.LARGE_PART)],
    "conv-layout": [("at least {} of the operators' time", shares.LARGE_PART)],
    "dispatch-bound": [("at least {} of the step", shares.LARGE_PART)],
    "padding-waste": [("more than {} of the places", shares.LARGE_PART)],
    "repeated-deterministic-preprocess": [("{:.0f} µs and a copy", remedies.TAKE_S * 1e6)],
    "remote-storage-latency": [("{:g} ms per sample", storage.LOCAL_READ_S[1] * 1e3)],
}  # fmt: skip


@pytest.mark.parametrize("finding", QUOTED)
def test_a_page_quotes_the_thresholds_of_the_code(finding: str) -> None:
    page = " ".join(registry.pages()[finding].lower().split())
    missing = [text.format(value).lower() for text, value in QUOTED[finding]]
    assert not [one for one in missing if one not in page]


@pytest.mark.parametrize("rank", [0, 1])
def test_batches_of_like_cost_are_as_many_and_as_large_on_every_rank(rank: int) -> None:
    """A rank with fewer samples in the last step would let the others wait for it, or end without it."""
    names: dict[str, Any] = {"DATASET": range(11), "COST": abs, "BATCH_SIZE": 2, "WORLD_SIZE": 2}
    names |= {"RANK": rank, "EPOCH": 0}
    names["DataLoader"] = lambda dataset, batch_sampler: batch_sampler
    exec(ranks.ALIKE, names)
    assert [len(batch) for batch in names["loader"]] == [2, 2]
