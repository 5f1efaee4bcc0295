"""Prints what operators on two threads keep of their speed beside one and two busy processes, by length."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from statistics import median

import torch

SECONDS, ROUNDS = 1.0, 2
BUSY = "while True: sum(range(1000))"


def operators() -> Iterator[tuple[str, Callable[[], object]]]:
    """Products and convolutions, from microseconds to a tenth of a second."""
    for size in (128, 512, 1024, 2048):
        a, b = torch.randn(2, size, size)
        yield f"product of {size}", partial(torch.mm, a, b)
    for channels, side in ((32, 32), (64, 64), (64, 128)):
        x, kernel = torch.randn(16, channels, side, side), torch.randn(channels, channels, 3, 3)
        yield f"convolution of {channels} by {side}", partial(torch.conv2d, x, kernel, padding=1)


def seconds(operator: Callable[[], object], busy: int) -> float:
    """Of one call, beside so many busy processes."""
    with ExitStack() as stack:
        for _ in range(busy):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(process.kill)
        time.sleep(0.3)
        calls, began = 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            operator()
            calls += 1
        return (time.perf_counter() - began) / calls


def main() -> None:
    """A line for each operator."""
    torch.set_num_threads(2)
    for name, operator in operators():
        operator()
        rounds = [[seconds(operator, busy) for busy in range(3)] for _ in range(ROUNDS)]
        alone, one, two = (median(column) for column in zip(*rounds, strict=True))
        print(f"{name:24} {1e3 * alone:8.2f} ms, keeps {alone / one:.2f} and {alone / two:.2f}", flush=True)


if __name__ == "__main__":
    main()
