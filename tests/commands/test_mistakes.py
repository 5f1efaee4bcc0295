"""The usual mistakes: what is said, on screens of 60 and of 80 columns, in a pipe without colours."""

from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.device import Allocator, DeviceFacts
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.run import Crash, Run
from bottleneck_doctor.render.compose import how_it_failed
from tests.commands.running import bdoc, script
from tests.model.profiles import PROFILE, RUN

LOOP = """
import os, time
import torch
from torch.utils.data import DataLoader

rows = [torch.ones(8)] * 800
model = torch.nn.Linear(8, 2)
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
batches = DataLoader(rows, batch_size=4)
for count, batch in enumerate(batches, 1):
    model(batch).sum().backward()
    sgd.step()
    sgd.zero_grad()
    if count == 150:
"""
CRASH, KILLED = LOOP + "        raise ValueError", LOOP + "        os.kill(os.getpid(), 9)"
MEMORY, WHOLE = LOOP + "        time.sleep(1.5); torch.empty(1 << 50)", LOOP + "        pass"
MISTAKES: dict[str, tuple[str, str, int, list[str]]] = {
    "crashes": (CRASH, "train.py", 1, ["ended with status 1 after 149 steps, ValueError at train.py:15;"]),
    "is killed": (KILLED, "train.py", 137, ["killed by signal 9 (SIGKILL) after 1"]),
    "wants memory": (MEMORY, "train.py", 1, ["RuntimeError at train.py:15;", "memory: ", "iB allowed"]),
    "too short": (WHOLE, "--max-steps 40 train.py", 0, ["s is the least: take --max-steps "]),
    "bdoc's behind": (WHOLE, "train.py --max-steps 9", 0, ["note: --max-steps 9 went to train.py; options"]),
    "its own before": ("", "--lr 0.1 train.py", 2, ["bdoc has no --lr;", ": bdoc run train.py --lr 0.1"]),
    "no module": ("import torhc", "train.py", 1, [
        "before its first training step; nothing to report: ModuleNotFoundError at train.py:1",
        " has no module torhc; `bdoc run --python PATH` takes another Python",
    ]),
    "trains nothing": ("print(1)", "train.py", 0, [
        "no training step was seen in ", "no batch of a DataLoader, backward() or", "`bdoc explain no-step`",
    ]),
    "misspelt": ("", "trian.py", 2, ["; did you mean train.py? [script-not-found]"]),
    "no launcher": ("", "-- srun train.py", 2, ["it comes with Slurm: start bdoc where `srun` is"]),
    "unknown key": ("", "train.py", 2, ["no key 'max-data-weight', did you mean 'max-data-wait' [usage]"]),
}  # fmt: skip


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (LOOP in MISTAKES[name][0])) for name in MISTAKES]
)
def test_a_mistake_is_named_and_what_to_do(name: str, width: int, folder: Path) -> None:
    source, line, status, said = MISTAKES[name]
    script(folder, source)
    if name == "unknown key":
        (folder / "pyproject.toml").write_text("[tool.bdoc]\nmax_data_weight = 0.2\n")
    told = bdoc(folder, *line.split(), env={"COLUMNS": str(width), "NO_COLOR": "1"})
    assert told.status == status
    assert [text for text in said if text not in " ".join(told.err.split())] == [], told.err
    report = told.err[told.err.find("bdoc train.py ") :].splitlines() if LOOP in source else []
    assert [one for one in report if len(one) > width and not one.startswith("bdoc: ")] == []
    assert len(report) <= (16 if status else 40), told.err
    assert "\x1b" not in told.err


G = float(1 << 30)
FULL = DeviceFacts(memory_bytes=80 << 30, driver=0, allocator=Allocator(0, 0, 0, 0, 60 << 30, 70 << 30))
HELD = Series([0.0, 1.0], {
    "gpu0_foreign_memory_bytes": [1.0, 7 * G], "job_rss_bytes": [9 * G, G], "oom_kills": [4.0, 5.0],
    "job_largest_rss_bytes": [6 * G, G],
})  # fmt: skip


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            replace(RUN, exit_status=1, crash=Crash(10, "OutOfMemoryError", memory="device")),
            "7 GiB of other processes, 60 GiB in tensors at their peak, 10 GiB more kept by torch's "
            "allocator, 80 GiB on the device",
        ),
        (
            replace(RUN, exit_status=137, signal=9),
            "9 GiB resident at the peak, 6 GiB in the largest process, 16 GiB allowed, 1 OOM kill by "
            "the kernel",
        ),
    ],
)
def test_who_held_memory_is_what_was_measured(run: Run, said: str) -> None:
    machine = replace(PROFILE.machine, memory_limit_bytes=16 << 30)
    report = write_up(replace(PROFILE, run=run, machine=machine, series=HELD, device=FULL))
    assert how_it_failed(report.run)[1:] == [f"memory: {said}"]
