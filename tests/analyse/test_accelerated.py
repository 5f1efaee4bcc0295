"""The verdict of accelerated runs, as a table that can be read aloud; every run is simulated."""

import re
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.replay import step_seconds
from bottleneck_doctor.analyse.scenario import fitted
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.device import DeviceFacts, DeviceSync, Kernels, TorchSettings
from bottleneck_doctor.model.diagnosis import BatchCost, Scenario, StepCost, Transport
from bottleneck_doctor.render.compose import compose
from bottleneck_doctor.render.document import WHOLE
from tests.analyse.devices import device_run
from tests.analyse.test_ranks import device_ranks
from tests.findings.test_on_gpus import PAGEABLE, of_files
from tests.house.source import ROOT

MS = 1e-3
READS = DeviceFacts(syncs=[DeviceSync("item", 1.0, 12 * MS, 6 * MS, "train.py", 9)])
HALF_EMPTY = DeviceFacts(sm_active_share=0.2)
HOT = {"busy_share": 0.99, "sm_clock_mhz": 800.0, "sm_clock_max_mhz": 1980.0, "clocks_hw_thermal": 1.0}
CROWD = {
    "busy_share": 0.99, "job_processes": 1.0, "foreign_processes": 1.0, "job_busy_share": 0.4,
    "foreign_busy_share": 0.6, "foreign_memory_bytes": 1e9,
}  # fmt: skip
FULL = {"busy_s": 19.5 * MS, "launch_s": 0.5 * MS, "host_s": 8 * MS}

UNFED = {"cpu": 40 * MS, "input_s": 15 * MS, "busy_s": 5 * MS, "host_s": 4 * MS}

HOPPER = DeviceFacts(capability=(9, 0), switches=TorchSettings("highest", "", False))
PLAIN = [Kernels("matmul", 14 * MS, 300.0, 1e-4, "float32"), Kernels("elementwise", 4 * MS, 300.0, 1e-5)]
SHORT = [Kernels("elementwise", 3 * MS, 600.0, 4e-6), Kernels("matmul", 3 * MS, 200.0, 1.2e-5)]
PAGE = (ROOT / "docs" / "gpu.md").read_text("utf-8")
RANKS = [{"busy_s": own * MS, "collective_s": (20 - own) * MS, "host_s": 4 * MS} for own in (10, 18, 10)]

# The last column is the report's first line, or its first three; # is a number and its unit.
TABLE = [
    ("two workers cannot feed it", UNFED, "cpu", "input.preprocess",
     "CPU-bound: the GPU waits 75 % of the step for batches\nworkers need # cores and have 2\n"
     "do first: give the job more cores, or make batches cheaper"),
    ("two workers decode", of_files(device_run(HOPPER, **UNFED), ".jpg"), "cpu", "input.preprocess",
     "CPU-bound: the GPU waits # of the step for batches\nworkers need # cores and have 2; train.py:7: "
     "decoding is # of a batch's CPU\ndo first: decode on the GPU: DALI with nvJPEG; not predicted"),
    ("two workers read a disk", {**UNFED, "cpu": MS, "storage": 40 * MS}, "io", "input.storage",
     "I/O-bound: the GPU waits # of the step for batches\ntrain.py:7 reads # a batch from a disk, in #\n"
     "do first: copy the data set to a local NVMe disk; not predicted"),
    ("busy in float32", {**FULL, "facts": replace(HOPPER, kernels=PLAIN)}, "gpu", "device.compute",
     "GPU-bound: the GPU computes # of the step\nkernels: float32 matmul #, elementwise #\n"
     "do first: let products in float32 use tensor cores; not predicted (at most #)"),
    ("the second of three ranks is slow", device_ranks(*RANKS), "comm", "comm.straggler",
     "communication-bound: the GPU waits # of the step for exchanges between ranks\nrank 1 needs # of its "
     "own a step, the fastest rank #\ndo first: give every rank the same amount of work, #"),
    ("busy from end to end", FULL, "gpu", "device.compute", "GPU-bound: the GPU computes 98 % of the step"),
    ("thousands of tiny kernels", {"facts": replace(HOPPER, kernels=SHORT), "busy_s": 6 * MS,
     "launch_s": 14 * MS, "host_s": 20 * MS}, "cpu", "host.launch",
     "launch-bound: the GPU waits 70 % of the step for launches\n800 kernels a step, the median #; the loop "
     "issues them in #\ndo first: replay the step as a CUDA graph; not predicted (at most #)"),
    ("a readback in every step", {"facts": READS, "busy_s": 8 * MS, "sync_s": 7 * MS, "host_s": 14 * MS},
     "cpu", "host.sync", "sync-bound: the GPU idles 47 % of the step after readbacks"),
    ("batches copied before the kernels", {"facts": replace(HOPPER, copies=[PAGEABLE]), "busy_s": 7 * MS,
     "transfer_s": 13 * MS, "host_s": 5 * MS}, "gpu", "device.transfer",
     "transfer-bound: the GPU waits 65 % of the step for copies\n"
     "# a step are copied from pageable memory, in #\ndo first: let copies to the device overlap"),
    ("memory allocated anew in every step", {"busy_s": 5 * MS, "memory_s": 12 * MS, "host_s": 4 * MS},
     "gpu", "device.memory", "allocator-bound: the GPU waits 71 % of the step for the allocator"),
    ("a readback in every step, and kernels that take longer than the loop", {"facts": READS,
     "busy_s": 11 * MS, "sync_s": 8 * MS, "host_s": 9 * MS}, "gpu", "host.sync",
     "sync-bound: the GPU idles 42 % of the step after readbacks\ntrain.py:9 waits for the device; calls "
     "that do, in a step: 1\ndo first: keep values on the device, # (an hour becomes # minutes)"),
    ("copies for a third of the step", {"busy_s": 12 * MS, "transfer_s": 8 * MS, "host_s": 5 * MS}, "gpu",
     "device.transfer", "transfer-bound: the GPU waits 40 % of the step for copies"),
    ("hot, at two fifths of its clock", {**FULL, "nvml": HOT}, "gpu", "device.throttled",
     "GPU-bound: the GPU runs at 40 % of its highest clock"),
    ("a neighbour on the same device", {**FULL, "nvml": CROWD}, "gpu", "device.shared",
     "GPU-bound: other processes take 60 % of the time that the GPU is busy"),
    ("a fifth of its multiprocessors", {**FULL, "facts": HALF_EMPTY}, "gpu", "device.underfilled",
     "GPU-bound: the GPU computes 98 % of the step"),
    ("only the driver was asked", {"nvml": {"busy_share": 0.95}}, "gpu", "device.compute", "GPU-bound: "),
    ("the driver sees it idle", {"nvml": {"busy_share": 0.3}}, "gpu", "device.underfilled", "GPU-bound: "),
    ("memory allocated anew, in less time than the kernels take", {"busy_s": 12 * MS, "memory_s": 8 * MS,
     "host_s": 2 * MS}, "gpu", "device.memory",
     "allocator-bound: the GPU waits 40 % of the step for the allocator"),
    ("unfed, and nobody saw what it did", {**UNFED, "window": False}, "cpu", "input.preprocess",
     "CPU-bound: the GPU waits 75 % of the step for batches"),
    ("unfed, and it cannot be timed", {"kind": "mps", "cpu": 60 * MS, "input_s": 15 * MS}, "cpu",
     "input.preprocess", "CPU-bound: the loop waits 43 % of each step for batches; the GPU was not timed"),
    ("a device that is not known", {"kind": "xla"}, "gpu", "device.compute",
     "accelerator-bound: the loop's own time outweighs the data's; "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("patient", "traits", "bound", "cause", "said"), TABLE, ids=[row[0] for row in TABLE]
)
def test_the_report_begins_with_what_was_put_there(patient, traits, bound, cause, said):
    report = write_up(device_run(**traits) if isinstance(traits, dict) else traits)
    assert (report.verdict.bound, report.verdict.cause) == (bound, cause), report.verdict
    document = compose(report, WHOLE)
    head, bars = document.head, [one.part for one in document.bars if one.culprit]
    lines = f"{document.headline}: {head.claim}\n{head.why}\n{head.first}{head.promise}"
    words = re.escape(said).replace(r"\#", r"×?\d+(\.\d+)?( (%|µs|ms|s|MiB))?")
    assert re.match(words, lines), lines
    assert "\n" not in said or re.search(words, PAGE), "docs/gpu.md shows another beginning"
    assert "\n" not in said or (len(bars) == 1 and max(map(len, lines.split("\n"))) <= 80)
    assert cause != "host.sync" or bars == ["idle: after readbacks: train.py:9"]
    if "was not timed" in said:  # what is measured of it, and what is not
        assert {"data wait", "kernels"} <= {*re.findall("data wait|kernels", " ".join(document.gaps))}


def test_what_the_device_does_is_divided_where_a_trace_tells():
    profile = device_run(nvml={"busy_share": 0.9, "dram_active_share": 0.4}, **FULL)
    window = replace(profile.device.window, forward_s=6 * MS, backward_s=12 * MS, optimizer_s=1.5 * MS,
                     collective_s=1 * MS, communication_s=4 * MS)  # fmt: skip
    report = write_up(replace(profile, device=replace(profile.device, window=window)))
    parts = {one.part: one.share for one in report.budget}
    phases = [parts[name] for name in ("forward", "backward", "optimizer")]
    assert phases == pytest.approx([0.3, 0.6, 0.075], rel=0.01)
    told = {one.metric: one.value for one in report.device.told}
    assert (told["overlap_share"], told["dram_active_share"]) == pytest.approx((0.75, 0.4))
    assert told["mfu_share"] is None


@pytest.mark.parametrize(
    "traits", [row[1] for row in TABLE if isinstance(row[1], dict) and "busy_s" in row[1]]
)
def test_the_replay_gives_back_the_step_that_the_device_lived_through(traits):
    diagnosis = diagnose(device_run(**traits))
    assert step_seconds(diagnosis.scenario) == pytest.approx(diagnosis.step_s, rel=0.15)


def test_time_inside_a_readback_is_not_promised_back():
    """The device is busy for 19.4 of 20 ms while the loop sits 17 ms inside `.item()`."""
    waiting = DeviceFacts(syncs=[DeviceSync("item", 1.0, 17 * MS, 0.6 * MS, "train.py", 9)])
    report = write_up(device_run(facts=waiting, busy_s=19.4 * MS, sync_s=0.6 * MS, host_s=3 * MS))
    assert report.verdict.cause == "device.compute"
    assert not [one for one in report.remedies if one.predicted_speedup.likely > 1.05]


def test_wake_ups_hidden_behind_the_device_explain_no_longer_step():
    costs, transport = (StepCost(0.0, launch=6 * MS, device=10 * MS),), Transport(serving=4e-4, waking=3 * MS)
    base = Scenario(
        (BatchCost(6e-4),), costs, workers=2, cores=2.0, strangers=1.3, transport=transport, ahead=1.0
    )
    assert fitted(base, 1.02 * step_seconds(base), 9 * MS, bulky=False).transport == transport


def test_data_waits_hidden_behind_the_device_are_not_exposed():
    """The loop runs ahead: it waits 6 ms for batches, and the device never runs dry."""
    profile = device_run(busy_s=20 * MS, host_s=5 * MS)
    table = profile.loops[0].table
    table.wait_s[:] = [6 * MS] * len(table.t)
    metrics = diagnose(profile).metrics
    assert metrics["data_wait_fraction"].value == pytest.approx(0.3, abs=0.02)
    assert metrics["exposed_data_wait_fraction"].value == 0.0
    assert metrics["gpu_busy_fraction"].value == pytest.approx(1.0)


COST = StepCost(0.0, launch=4 * MS, device=10 * MS)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("cost", "ahead", "making", "step"),
    [
        (COST, 1.0, 1 * MS, 10 * MS),  # the device sets the pace
        (replace(COST, launch=14 * MS), 1.0, 1e-5, 14 * MS),  # the loop does
        (replace(COST, copying=3 * MS), 1.0, 1 * MS, 13 * MS),  # copies stand in line with kernels
        (replace(COST, lead_in=3 * MS), 0.0, 1e-5, 13 * MS),  # waits for the device, then for the loop
        (replace(COST, lead_in=3 * MS), 1.0, 1e-5, 10 * MS),  # no longer waits
        (COST, 1.0, 24 * MS, None),  # the loader does
    ],
)
def test_the_step_is_the_longer_of_two_timelines(cost, ahead, making, step, workers):
    scenario = Scenario((BatchCost(making),), (cost,), workers=workers, cores=8.0, ahead=ahead)
    expected = step or (making / workers if workers else making + cost.launch)
    assert step_seconds(scenario) == pytest.approx(expected, rel=0.02)
