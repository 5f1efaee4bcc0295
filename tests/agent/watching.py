"""Real processes with the door open: a user's script, what it said, and what the agent wrote about it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.facts import KINDS, keys
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.assemble.rows import ProcessLog, read_logs
from bottleneck_doctor.model.loops import Loader, Loop
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.agent.torch_server import server
from tests.house.source import PACKAGE, ROOT

AGENT = ROOT / PACKAGE / "agent"
INJECT = ROOT / PACKAGE / "inject"
PATIENCE_S = 150.0  # where many share the cores, an import of torch takes twenty seconds

# What torch, or whoever starts it, reads when it is imported: such a script gets a new interpreter.
FRESH = {"OMP_NUM_THREADS", "RANK", "WORLD_SIZE"}

# What every script begins with. A data set's class name says which loop of the script is meant.
PRELUDE = """
import json, os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.set_num_threads(1)
torch.manual_seed(0)

class Rows(Dataset):
    def __init__(self, length=16):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((4,), float(index))

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train_on(batch):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss

def say(**values):
    print(json.dumps(values), flush=True)
"""


@dataclass(frozen=True)
class Told:
    """A run that has ended: its status, its output, and the folder with the agent's rows."""

    status: int
    stdout: str
    stderr: str
    folder: Path
    origin_ns: int


def watched(folder: Path, script: str, fresh: bool = False, **environ: str) -> Told:
    """Run the script with the door open in ``folder``; ``fresh``: torch's import is part of the test."""
    run = folder / "run"
    run.mkdir()
    (run / "control").write_bytes(bytes(wire.CONTROL_BYTES))
    door = {"BDOC_RUN": str(run), "BDOC_AGENT": str(AGENT), "PYTHONPATH": str(INJECT)}
    told = _run(folder, run, script, {**door, **environ}, fresh)
    _hold_to_declarations(run)
    return told


def _hold_to_declarations(run: Path) -> None:
    """Whatever is written, its kind and its keys are declared, and columns that are not stay empty."""
    declared = {name: keys(kind).keys() for kind, name in KINDS.items()}
    for log in read_logs(run):
        for fact in log.facts:
            assert fact.keys() - {"fact"} <= declared[fact["fact"]], fact
        for row in log.rows:
            _, columns, _ = wire.KINDS[row.kind]
            assert not any(row[2 + len(columns) : 7]), (row.kind, row)


def plain(folder: Path, script: str, **environ: str) -> Told:
    """Run the script without any door."""
    return _run(folder, folder, script, environ, fresh=False)


def both_ways(folder: Path, script: str, fresh: bool = False, **environ: str) -> tuple[Told, Told]:
    """The script without bdoc, and with it, each in a folder of its own."""
    for name in ("alone", "seen"):
        (folder / name).mkdir()
    return plain(folder / "alone", script, **environ), watched(folder / "seen", script, fresh, **environ)


def _run(folder: Path, run: Path, script: str, environ: dict[str, str], fresh: bool) -> Told:
    file = folder / "train.py"
    file.write_text(script)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BDOC_", "PYTHON"))}
    began = time.monotonic_ns()
    if script.startswith(PRELUDE) and not fresh and not FRESH & environ.keys():
        status, out, err = server().run([str(file)], folder, {**kept, **environ}, PATIENCE_S)
        return Told(status, out.decode(), err.decode(), run, began)
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**kept, **environ},
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Told(done.returncode, done.stdout, done.stderr, run, began)


def said(told: Told) -> dict[str, Any]:
    """What the script said about itself, all lines together; its end must have been clean."""
    assert told.status == 0, told.stderr
    whole: dict[str, Any] = {}
    for line in told.stdout.splitlines():
        whole.update(json.loads(line))
    return whole


def first(log: ProcessLog, name: str) -> dict[str, Any]:
    """The first fact of that name as it was written, or an empty one."""
    return next((fact for fact in log.facts if fact.get("fact") == name), {})


def profile_of(told: Told) -> Profile:
    """The facts about the run, put together as ``bdoc run`` does it."""
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 1.0, told.status)
    return assemble(Remains(run, Machine("box", "6", "cpu", 2, 2.0), told.origin_ns, folder=told.folder))


def loader_of(profile: Profile, dataset: str) -> Loader:
    """The one loader over that data set."""
    (found,) = (loader for loader in profile.loaders if loader.dataset == dataset)
    return found


def loops_over(profile: Profile, dataset: str) -> list[Loop]:
    """The loops that consumed the loader over that data set."""
    key = loader_of(profile, dataset).key
    return [loop for loop in profile.loops if loop.loader == key]
