"""What all GPU patients need: options, the device, work of a chosen length, CPU work, ready batches."""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from speed import Speed, half, speed
from torch.utils.data import DataLoader, Dataset

NOT_HERE = 77  # the exit status of a script that cannot be what it should be on this machine
SECONDS = 8.0  # of a sick run
READY = 4  # batches that a patient without a real loader keeps,
EPOCH = 1000  # and how many make an epoch


@dataclass(frozen=True)
class Stage:
    """The command line of a patient, and the device it runs on. On a CPU everything is tiny: a rehearsal."""

    device: torch.device
    cured: bool
    steps: int
    truth: Path | None
    trace: Path | None
    data: Path
    workers: int | None
    speed: Speed

    @property
    def cuda(self) -> bool:
        """Whether this is no rehearsal."""
        return self.device.type == "cuda"

    @property
    def half(self) -> torch.dtype:
        """The 16 bits that this device is fast at."""
        return half(self.device)

    def size(self, real: int, tiny: int) -> int:
        """A size on a real device, and in a rehearsal."""
        return real if self.cuda else tiny


def options(about: str | None, *, step_s: float) -> Stage:
    """Parse the arguments, seed torch, take the device. ``step_s`` is the nominal sick step, which sets the
    number of steps: two runs with the same arguments print the same text."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--cured", action="store_true", help="apply the remedy, and nothing else")
    parser.add_argument("--steps", type=int, help="training steps (default: about eight seconds of them)")
    parser.add_argument("--truth", type=Path, help="write the script's own timings to this file")
    parser.add_argument("--trace", type=Path, help="profile a few steps, write what ran to this file, end")
    parser.add_argument("--speed", type=Path, help="the device's speed (default: measured now)")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bdoc-patients")
    parser.add_argument("--workers", type=int, help="workers of the cured run, where they are the cure")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        not_here("no CUDA device, or a torch that was not built for it; --device cpu rehearses")
    device = torch.device(given.device)
    known = json.loads(given.speed.read_text()) if given.speed else None
    found = Speed(**known) if known else speed(device, given.data)
    torch.manual_seed(0)
    if device.type == "cpu":
        torch.set_num_threads(1)  # work so small gains nothing from more, and they wait for one another
    return Stage(
        device=device,
        cured=given.cured,
        steps=given.steps or round(SECONDS / step_s),
        truth=given.truth,
        trace=given.trace,
        data=given.data,
        workers=given.workers,
        speed=found,
    )


def not_here(why: str) -> NoReturn:
    """End: on this machine the patient would not have its illness."""
    print(why, file=sys.stderr)
    raise SystemExit(NOT_HERE)


def burn(cpu_s: float) -> None:
    """Use this much CPU time of the calling thread: a stand-in for decoding, or for Python of one's own."""
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass


class Spread(torch.nn.Module):
    """Repeats a small batch until it fills so many rows, as each picture has many patches."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.repeat(self.rows // len(x), 1)


def products(
    stage: Stage, seconds: float, *, dtype: torch.dtype, width: int = 2048, rows: int = 8192
) -> torch.nn.Sequential:
    """Layers whose forward and backward pass keep this device busy for about so long, in large kernels."""
    rows, width = stage.size(rows, 32), stage.size(width, 16)
    flops = stage.speed.single_flops if dtype == torch.float32 else stage.speed.half_flops
    count = max(1, round(seconds * flops / (6 * rows * width**2))) if stage.cuda else 1
    how = {"device": stage.device, "dtype": dtype}
    layers = [torch.nn.Linear(width, width, bias=False, **how) for _ in range(count)]
    for layer in layers:  # values that stay of one size: a device that multiplies zeros draws less power
        torch.nn.init.kaiming_normal_(layer.weight)
    steps = [module for layer in layers for module in (layer, torch.nn.ReLU())]
    return torch.nn.Sequential(Spread(rows), *steps)


class Again(Dataset[torch.Tensor]):
    """A few batches, again and again."""

    def __init__(self, batches: list[torch.Tensor]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.batches[index % len(self.batches)]


def ready(stage: Stage, *shape: int, dtype: torch.dtype, pinned: bool = True) -> DataLoader[torch.Tensor]:
    """A loader that costs next to nothing: batches made beforehand, in pinned memory unless told not to."""
    batches = [torch.randn(shape).to(dtype) for _ in range(READY)]
    if pinned and stage.cuda:
        batches = [batch.pin_memory() for batch in batches]
    return DataLoader(Again(batches), batch_size=None)
