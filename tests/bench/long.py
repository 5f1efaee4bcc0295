"""``python -m tests.bench.long``: what a long run takes of disk and memory, and how long its end takes.

One training starts workers anew for each of many epochs, one makes millions of steps. Disk is what the run's
folder has at most, memory the supervisor's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.lab.run import BDOC

TRAINING = """
import sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
epochs, steps, workers = map(int, sys.argv[1:])
data = TensorDataset(torch.zeros(steps, 1))
loader = DataLoader(data, batch_size=1 if workers else None, num_workers=workers)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
    torch.set_num_threads(1)
    for _ in range(epochs):
        for (x,) in loader:
            model(x).sum().backward()
            optimizer.step()
    print(time.time())
"""
EVERY_S = 0.2


def main(argv: Sequence[str] | None = None) -> int:
    """Run both and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.long", description=__doc__)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10_000_000)
    given = parser.parse_args(argv)
    measure(f"{given.epochs} epochs of {given.workers} workers", given.epochs, given.workers, given.workers)
    measure(f"{given.steps} steps", 1, given.steps, 0)
    return 0


def measure(name: str, *arguments: int) -> None:
    """One training under ``bdoc run``, with a folder for temporary files of its own."""
    with tempfile.TemporaryDirectory(prefix="bdoc-long-") as place:
        script, folder = Path(place) / "train.py", Path(place) / "tmp"
        script.write_text(TRAINING)
        folder.mkdir()
        command = [*BDOC, "run", "-q", script, *map(str, arguments)]
        disk = memory = 0
        began = time.time()
        with subprocess.Popen(
            command, cwd=place, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)}
        ) as run:
            supervisor = psutil.Process(run.pid)
            while run.poll() is None:
                disk, memory = max(disk, allocated(folder)), max(memory, resident(supervisor))
                time.sleep(EVERY_S)
            ended = time.time()
            told = run.stdout.read() if run.stdout is not None else ""
        trained, profile = float(told.split()[-1]), Path(place) / "profile.json"
        plain_s = plain_end_s(script, *arguments)
        steps = sum(one["steps"] for one in json.loads(profile.read_text())["loops"])
        print(
            f"{name}: {trained - began:.0f} s, {steps} steps seen; at most {disk / 2**20:.1f} MiB on disk "
            f"and {memory / 2**20:.0f} MiB of memory; {ended - trained:.1f} s from the last step to the end "
            f"({plain_s:.1f} s without bdoc); a profile of {profile.stat().st_size / 2**20:.1f} MiB",
            flush=True,
        )


def plain_end_s(script: Path, epochs: int, steps: int, workers: int) -> float:
    """From the last step to the end without bdoc; one short epoch tells."""
    few = (min(epochs, 1), min(steps, 1000), workers)
    told = subprocess.run(
        [sys.executable, script, *map(str, few)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return time.time() - float(told.split()[-1])


def allocated(folder: Path) -> int:
    """Bytes on disk of all files below."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def resident(process: psutil.Process) -> int:
    """Bytes in memory of one process."""
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
