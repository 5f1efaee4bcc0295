"""Decoy: a compiled model of large products, fused as far as it goes; the device is busy all the time."""

import importlib.util
import shutil
import sysconfig
from pathlib import Path

import torch
from clock import Clock
from stage import not_here, options, products, ready


def compiles() -> bool:
    """Whether all is here that the compiler's own compilers need."""
    triton = importlib.util.find_spec("triton") is not None
    headers = Path(sysconfig.get_paths()["include"], "Python.h").exists()
    return triton and headers and bool(shutil.which("gcc") or shutil.which("cc") or shutil.which("clang"))


def main() -> None:
    stage = options(__doc__, step_s=0.014)
    if stage.cuda and not compiles():
        not_here("torch.compile for a GPU needs triton, a C compiler and Python's headers")
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(4096, 16), dtype=stage.half)
    model = products(stage, 0.014, dtype=stage.half, width=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    model.compile(backend="inductor" if stage.cuda else "eager")
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
