"""Reports as an analysis would write them, for every test that needs one."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.report import (
    Abstention,
    BudgetPart,
    Evidence,
    Fix,
    HotFunction,
    HotOperator,
    LedgerPart,
    Metric,
    Overhead,
    Phase,
    Quality,
    Remedy,
    Report,
    ReportedFinding,
    RunSummary,
    Speedup,
    Verdict,
)
from bottleneck_doctor.model.run import Crash, Gap, RunEnd

TRAIN = Location("/home/ann/cats/train.py", 41, "main")
RUN = RunSummary(
    command=["/usr/bin/python", "train.py", "--epochs", "3", "--name", "two words"], script="train.py",
    cwd="/home/ann/cats", started_at="2026-03-01T12:00:00Z", duration_s=38.21, exit_status=0, host="box",
    python="3.11.7", torch="2.13.0", machine={"cores": 4.0, "gpus": []},
)  # fmt: skip
METRICS = {
    "data_wait_fraction": Metric(0.6213, "fraction", 0.601, 0.6402, 402, "loader hook"),
    "exposed_data_wait_fraction": Metric(0.6213, "fraction", 0.601, 0.6402, 402, "loader hook"),
    "step_time_s": Metric(0.0241, "s", 0.0238, 0.0245, 402, "loader hook"),
    "steps_per_s": Metric(41.49, "1/s", 40.8, 42.0, 402, "loader hook"),
    "samples_per_s": Metric(1327.7, "1/s", 1306, 1344, 402, "loader hook"),
    "cpu_busy_fraction": Metric(0.27, "fraction", 0.26, 0.28, 190, "/proc"),
    "iowait_fraction": Metric(0.0004, "fraction", 0.0, 0.001, 190, "/proc/stat"),
    "gpu_busy_fraction": Metric(None, "fraction"),
    "gpu_memory_fraction": Metric(None, "fraction"),
    "worker_busy_fraction": Metric(None, "fraction"),
    "startup_s": Metric(3.4, "s", None, None, 1, "agent"),
    "evaluation_fraction": Metric(0.0, "fraction", None, None, 1, "agent"),
    "checkpoint_fraction": Metric(0.021, "fraction", None, None, 3, "agent"),
}
LEDGER = [
    LedgerPart("start-up and imports", 0.089, 3.4), LedgerPart("starting workers", 0.1, 3.82),
    LedgerPart("warm-up", 0.011, 0.42), LedgerPart("training steps", 0.5, 19.1),
    LedgerPart("evaluation", 0.2, 7.64), LedgerPart("checkpoints", 0.02, 0.764),
    LedgerPart("shut-down", 0.05, 1.91), LedgerPart("unexplained", 0.03, 1.146),
]  # fmt: skip
BUDGET = [
    BudgetPart("data wait: decode", 0.48, 0.01157),
    BudgetPart("data wait: collate", 0.1413, 0.00340),
    BudgetPart("forward and own code", 0.33, 0.00795),
    BudgetPart("optimizer", 0.045, 0.00108),
    BudgetPart("other", 0.0037, 0.0000892),
]
VERDICT = Verdict(
    bound="cpu", cause="input.preprocess", confidence="high",
    summary="making batches keeps the CPU busy: decoding, augmenting, tokenising in the data set",
    gain={"cpu": 2.61, "io": 1.04, "gpu": None, "comm": None},
)  # fmt: skip
FINDINGS = [
    ReportedFinding(
        "decode-bound", "input.preprocess", "secondary",
        [Evidence("decoding images is most of a batch", "decode_share", 0.77, "decoder hook")],
    ),
    ReportedFinding(
        "loader-in-main", "input.preprocess", "primary",
        [
            Evidence("the loop waits for batches made in its own process", "data_wait_fraction", 0.6213,
                     "loader hook"),
            Evidence("CPU time to make one batch", "fetch_cpu_s", 0.01484, "thread clock, 402 batches"),
            Evidence("cores without work", "idle_cores", 2.9, "/proc"),
        ],
        TRAIN,
    ),
]  # fmt: skip
TURBO = Fix(
    "Replace PIL by torchvision.io in the dataset.",
    "from torchvision.io import read_image\n\n"
    "def __getitem__(self, i):\n    return read_image(self.paths[i])",
    Location("/home/ann/cats/data.py", 12, "__getitem__"),
)
WORKERS = Fix("Give the loader workers.", "DataLoader(ds, num_workers=3, persistent_workers=True)", TRAIN)
REMEDIES = [
    Remedy(
        "workers-auto", "make batches in worker processes", "loader-in-main",
        Speedup(2.2, 2.5, 2.6, "replay"), 0.00964, 2.5, WORKERS, "hook", "low", "memory times 3",
    ),
    Remedy(
        "decode-turbo", "decode with a faster library", "decode-bound",
        Speedup(1.0, None, 1.62, "bound"), None, 2.58, TURBO, "manual", "medium", "none",
    ),
    Remedy(
        "bf16-autocast", "compute in bfloat16", "fp32-compute", Speedup(1.02, 1.04, 1.06, "amdahl"), 0.0232,
        2.74, Fix("Wrap the forward pass in torch.autocast."), "hook~", "low", "changes numerics",
    ),
    Remedy(
        "channels-last", "store images channels last", "conv-layout", Speedup(1.0, 1.02, 1.05, "amdahl"),
        0.0236, 2.8, Fix("Call model.to(memory_format=torch.channels_last)."), "hook", "low", "none",
    ),
    Remedy(
        "batch-larger", "raise batch_size", "small-batch", Speedup(0.7, 0.8, 0.9, "replay"), 0.0301, None,
        Fix("Leave batch_size as it is."), "manual", "low", "none",
    ),
]  # fmt: skip
QUALITY = Quality(
    steady_steps=402,
    warmup_steps=10,
    step_time_noise=0.03,
    overhead=Overhead(0.000072, 0.003, 0.012),
    gaps=[
        Gap("GPU", "no NVIDIA driver on this machine"),
        Gap("blocked time by cause", "py-spy may not attach", "sysctl kernel.yama.ptrace_scope=0"),
        Gap("disk reads per process", "/proc/PID/io is not readable"),
        Gap("pressure", "no /proc/pressure"),
    ],
)
TYPICAL = Report(
    run=RUN, quality=QUALITY, metrics=METRICS, budget=BUDGET, verdict=VERDICT, findings=FINDINGS,
    remedies=REMEDIES[:4], warnings=REMEDIES[4:], ledger=LEDGER,
    abstentions=[Abstention("gpu-throttled", "GPU clocks"), Abstention("comm-bound", "more than one rank")],
)  # fmt: skip
PHASED = replace(
    TYPICAL,
    phases=[
        Phase(10, 130, "first stretch (cold)", replace(VERDICT, bound="io", cause="input.storage")),
        Phase(130, 532, "steady", VERDICT),
    ],
)
LIBRARY = Location("/usr/lib/python3.11/site-packages/PIL/ImageFile.py", 425, "load")
DATA = Location("/home/ann/cats/data.py", 12, "Photos.__getitem__")
WATCHED = replace(
    TYPICAL,
    environment={
        "python": "3.11.7", "torch": "2.13.0", "device": None, "cores": 3.5, "memory_bytes": 1 << 34,
    },
    functions=[
        HotFunction("Photos.__getitem__", DATA, "worker", True, 0.918, 0.918, 389, 0.97),
        HotFunction(
            "Trainer.wait_for_the_next_batch_of_all_the_loaders", TRAIN, "trainer", True, 0.8, 0.8, 98, 0.0
        ),
        HotFunction("main", TRAIN, "trainer", True, 0.041, 1.0, 98),
        HotFunction("ImageFile.load", LIBRARY, "worker", False, 0.744, 0.744, 389, 0.41),
    ],
    operators=[
        HotOperator("aten::addmm", 2.0, 0.0041, 0.0, 0.82),
        HotOperator("aten::copy_", 1.0, 0.0008, 0.0, 0.16),
        HotOperator("aten::view", 3.5, 0.0001, 0.0, 0.02),
    ],
)  # fmt: skip
INCONCLUSIVE = Report(
    run=replace(RUN, exit_status=1, torch=None, machine={}),
    quality=Quality(3, 0, None, Overhead(None, None, None), [Gap("steps", "the run ended after 3 steps")]),
    metrics={name: Metric(None, metric.unit) for name, metric in METRICS.items()},
    budget=[],
    verdict=Verdict(
        "inconclusive", "none", "only 3 steady steps were seen; 8 is the least that can be judged", "low"
    ),
)
CRASH = Crash(9, "ValueError", "/home/ann/cats/train.py", 40)
CRASHED = replace(TYPICAL, run=replace(RUN, exit_status=1, end=RunEnd(150, 150, 1, crash=CRASH)))
HEALTHY = replace(
    TYPICAL, findings=[], remedies=[], abstentions=[], quality=replace(QUALITY, gaps=[]),
    verdict=Verdict("balanced", "none", "no resource, infinitely fast, would gain 5 %", "medium", None,
                    {"cpu": 1.04, "io": 1.0}),
)  # fmt: skip
