"""``bdoc run`` of real trainings that are killed, limited, distributed, or have nowhere to write."""

import os
import random
import re
import shutil
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from bottleneck_doctor.model.profile import Profile
from tests.commands.running import Told, bdoc, gaps, in_its_own_world, may_mount, plain, script, started

pytestmark = pytest.mark.slow

QUIETLY = ["-q", "--no-profiler", "--no-py-spy"]
PRELUDE = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
STEPS = 3000
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = 0

class Rows(Dataset):
    def __len__(self):
        return 4 * STEPS

    def __getitem__(self, index):
        return (torch.full((8,), float(index % 7)),)

def loader(**options):
    return DataLoader(Rows(), batch_size=4, **options)

def closure():
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    return loss

def step(given):
    global batch, count
    batch, count = given, count + 1
    optimizer.step(closure)
    time.sleep(0.003)  # so that every step is looked at closely, and limits are exact
"""


def training(folder: Path, source: str) -> str:
    return script(folder, PRELUDE + source)


def steps(told: Told) -> list[int]:
    """Of every training loop of the profile."""
    return [loop["steps"] for loop in told.profile["loops"] if loop["role"] == "train"]


ENDLESS = """
for epoch in range(1000):
    for (batch,) in loader(num_workers=1):
        step(batch)
        if count == 1:
            print("training", flush=True)
"""


def broken_off(folder: Path, victim: str, after_s: float) -> tuple[int, Profile]:
    """A training whose process or worker is killed that long after its first step; status and profile."""
    run = started(folder, b"training\n", *QUIETLY, training(folder, ENDLESS))
    time.sleep(after_s)
    trainer = next(pid for pid in children(run.pid) if b"train.py" in cmdline(pid))
    os.kill(trainer if victim == "trainer" else children(trainer)[0], signal.SIGKILL)
    status = run.wait(60)
    assert not list(folder.glob(".bdoc*")), "the run folder is still there"
    return status, read_profile(str(folder / "profile.json"))


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_sigkill_at_a_random_moment_leaves_a_profile_and_a_verdict_over_what_was_seen(folder: Path) -> None:
    moment = random.uniform(0.3, 1.2)
    status, profile = broken_off(folder, "trainer", moment)
    assert (status, profile.run.exit_status, profile.run.signal) == (137, 137, 9), f"after {moment} s"
    assert sum(loop.steps for loop in profile.loops) > 20
    report = write_up(profile)
    assert report.quality.steady_steps > 0
    assert report.verdict.summary


LIVED = """
import atexit, time
born = time.monotonic()
atexit.register(lambda: open("lived", "w").write(repr(time.monotonic() - born)))
"""


def test_the_printed_cost_is_what_the_run_took_beside_the_script(folder: Path) -> None:
    script(folder, LIVED + PRELUDE + "for count, (batch,) in zip(range(100), loader()):\n    step(batch)\n")
    began = time.monotonic()
    told = bdoc(folder, "--no-py-spy", "train.py", fresh=True)
    around = time.monotonic() - began - float((folder / "lived").read_text())
    cost = told.profile["cost"]
    assert min(cost["before_s"], cost["after_s"], cost["agent_s"]) > 0
    assert cost["before_s"] + cost["after_s"] < around
    assert cost["stacks_cpu_s"] == 0.0
    assert re.search(r"overhead: .* while it trained, .* before and after", " ".join(told.err.split()))


def test_a_killed_worker_is_the_loaders_error_to_report(folder: Path) -> None:
    status, profile = broken_off(folder, "worker", 0.3)
    assert (status, profile.run.signal) == (1, None)
    assert {process.role for process in profile.processes} == {"trainer", "worker"}


LOOPS = {
    "cleans up": """
try:
    for (batch,) in loader():
        step(batch)
finally:
    print("cleaned")
""",
    "swallows everything": """
batches = iter(loader())
while count < STEPS:
    try:
        step(next(batches)[0])
    except:
        break
""",
    "closures": """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
for (batch,) in loader():
    step(batch)
""",
    "no loader": """
while count < STEPS:
    step(torch.ones(4, 8))
""",
}
PARTING = "import atexit; atexit.register(lambda: print(count))\n"


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS)
def test_a_number_of_steps_ends_every_kind_of_loop_cleanly(source: str, folder: Path) -> None:
    told = bdoc(folder, *QUIETLY, "--max-steps", "40", training(folder, PARTING + source))
    assert (told.status, told.err, told.left) == (0, "", [])
    assert int(told.out.split()[-1]) == pytest.approx(40, abs=12)
    assert (b"cleaned" in told.out) is ("cleaned" in source)
    assert told.profile["run"]["stopped_by"] == "max-steps"


def test_a_number_of_seconds_ends_a_training_over_several_epochs(folder: Path) -> None:
    source = (
        PARTING
        + "STEPS = 100\nfor epoch in range(1000):\n    for (batch,) in loader():\n        step(batch)\n"
    )
    told = bdoc(folder, "-q", "--max-seconds", "1", training(folder, source))
    assert (told.status, told.err) == (0, "")
    assert 100 < int(told.out) < 3000
    assert told.profile["run"]["stopped_by"] == "max-seconds"


RANKS = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
parallel, whole = DistributedDataParallel(model), model
model = parallel
try:
    for epoch in range(1000):
        for (batch,) in DataLoader(TensorDataset(torch.ones(400, 8)), batch_size=4):
            step(batch)
            time.sleep(0.002 * rank)
finally:
    open(f"ended-{rank}", "w").write(str(count))
"""


def test_both_ranks_of_torchrun_are_seen_and_end_at_the_same_step(folder: Path) -> None:
    name = training(folder, RANKS)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", name]
    told = bdoc(folder, *QUIETLY, "--max-steps", "150", "--", *launch)
    assert told.status == 0, told.err
    ended = [int((folder / f"ended-{rank}").read_text()) for rank in (0, 1)]
    assert ended[0] == pytest.approx(ended[1], abs=1)
    trainers = [one for one in told.profile["processes"] if one["role"] == "trainer"]
    assert sorted((one["rank"], one["world_size"]) for one in trainers) == [(0, 2), (1, 2)]
    assert sum(steps(told)) == pytest.approx(sum(ended), abs=4)  # a stop that is foreseen loses none
    assert len(steps(told)) == 2
    assert told.profile["run"]["stopped_by"] == "max-steps"
    assert write_up(read_profile(str(folder / "profile.json"))).quality.steady_steps > 0


def test_ranks_of_two_runs_train_on_where_seconds_would_part_them(folder: Path) -> None:
    """As tasks of ``srun bdoc run``: rank 0 would have been gone while rank 1 still wants to exchange."""
    name = training(folder, RANKS.replace("range(1000)", "range(4)"))
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = str(asked.getsockname()[1])

    def task(rank: int) -> Told:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(rank)}
        line = [*QUIETLY, "-o", f"{rank}.json", "--max-seconds", "0.5", name]
        return bdoc(folder, *line, env=place, fresh=True)

    with ThreadPoolExecutor() as tasks:
        told = list(tasks.map(task, (0, 1)))
    assert [one.status for one in told] == [0, 0], told
    assert [(folder / f"ended-{rank}").read_text() for rank in (0, 1)] == ["400", "400"]
    gaps = read_profile(str(folder / "1.json")).gaps
    assert [one.do for one in gaps if one.what == "--max-seconds"] == [
        "--max-steps ends all ranks at the same one"
    ]


BALLAST = """
import os, tempfile
ballast = tempfile.NamedTemporaryFile()
os.posix_fallocate(ballast.fileno(), 0, 1000 << 10)
"""
SHORT = """
STEPS = 100
for epoch in range(2):
    for (batch,) in loader(num_workers=2):
        step(batch)
    print(epoch, model.weight.sum().item())
"""


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount")
def test_on_a_full_disk_the_losses_are_the_same_and_what_was_dropped_is_counted(folder: Path) -> None:
    name = training(folder, BALLAST + SHORT)
    room = "mount -t tmpfs -o size=1100k tmpfs tmp"  # for the probe, and for the ballast and two processes
    told = bdoc(folder, *QUIETLY, name, wrapper=in_its_own_world(room))
    assert (told.status, told.out) == plain(folder, name)
    assert "rows found no room and were dropped" in gaps(told)["rows"]


def without_ptrace() -> list[str]:
    """What a container without SYS_PTRACE is for root; anybody else has none to begin with."""
    if os.getuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may look into everything, and there is no setpriv")
    return ["setpriv", "--inh-caps=-sys_ptrace", "--bounding-set=-sys_ptrace"]


def test_a_training_that_nobody_may_look_into_is_measured_from_inside(folder: Path) -> None:
    forbid = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # PR_SET_DUMPABLE
    name = training(folder, forbid + SHORT)
    told = bdoc(folder, *QUIETLY, name, wrapper=without_ptrace())
    assert (told.status, told.out) == plain(folder, name)
    assert "bytes read by the job" in gaps(told)
    assert sum(steps(told)) == 200


def test_the_gate_decides_the_status_of_a_run_that_ended_well(folder: Path) -> None:
    source = "STEPS = 200\nfor (batch,) in loader(num_workers=1):\n    step(batch)\n"
    limits = ["--fail-if", "step_time_s > 100", "--fail-if", "data_wait_fraction > 0.0001"]
    told = bdoc(folder, *QUIETLY, *limits, training(folder, source))
    assert told.status == 1
    assert [line[:9] for line in told.err.splitlines()] == ["bdoc: ok ", "bdoc: FAI", *["bdoc:    "] * 2]
