"""One small training that ends as it must with and without bdoc, in the WAY that is named.

Its output holds a digest of the parameters, of the device's random numbers and of the memory used: all equal.
"""

import argparse
import hashlib
import os
import statistics
import sys
import time
from itertools import pairwise

import torch
from torch.utils.data import DataLoader, TensorDataset

WAYS = ("sticky", "forks", "capture", "side-stream", "after", "compiled")
WARM_UP = 11  # steps on a side stream, as torch's recipe for graphs and DDP has it
WIDTH, BATCH = 256, 64


def main() -> None:
    """Train, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--steps", type=int, required=True)
    given = parser.parse_args()
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # without it cuBLAS may differ from run to run
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)  # which keeps the loop's time on the host steady
    ends = train(given.way, given.steps, device)
    if device.type == "cuda":
        torch.cuda.synchronize()
        print("memory", torch.cuda.max_memory_allocated(), "random", digest(torch.cuda.get_rng_state()))
    steps = [(last - ends[0], last - first) for first, last in pairwise(ends)]
    early = [taken for t, taken in steps if 1.0 < t < 2.8]
    late = [taken for t, taken in steps if t > 6.0]
    if given.way == "after" and early and late:
        ratio = statistics.median(late) / statistics.median(early)
        print("later steps over earlier ones", ratio, file=sys.stderr)


def train(way: str, steps: int, device: torch.device) -> list[float]:
    """When each step ended."""
    blocks = [(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Dropout(0.1)) for _ in range(20)]
    model = torch.nn.Sequential(*(one for block in blocks for one in block)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    call = torch.compile(model, mode="reduce-overhead") if way == "compiled" else model
    data = TensorDataset(torch.randn(20_000, WIDTH))
    ends: list[float] = []
    while len(ends) < steps:
        workers = 2 if way == "forks" else 0
        for (x,) in DataLoader(data, BATCH, shuffle=True, num_workers=workers, drop_last=True):
            x = x.to(device, non_blocking=True)
            if way == "side-stream" and len(ends) < WARM_UP and device.type == "cuda":
                on_a_side_stream(call, x)
            optimizer.zero_grad()
            call(x).square().mean().backward()
            optimizer.step()
            ends.append(time.perf_counter())
            if way == "capture" and len(ends) % 50 == 0 and device.type == "cuda":
                capture(device)
            if way == "sticky" and len(ends) == steps // 2:
                fail(device)
            if len(ends) == steps:
                break
        if way == "forks":
            with torch.no_grad():
                sum(1 for _ in DataLoader(data, 512, num_workers=2))
    print("parameters", digest(*model.parameters()))
    return ends


def on_a_side_stream(call: torch.nn.Module, x: torch.Tensor) -> None:
    """A forward and a backward pass, whose gradients are dropped."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(side)


def capture(device: torch.device) -> None:
    """A graph of its own, which must do what was captured."""
    graph, source = torch.cuda.CUDAGraph(), torch.zeros(8, device=device)
    with torch.cuda.graph(graph):
        doubled = source * 2
    source.fill_(3)
    graph.replay()
    assert doubled[0].item() == 6


def fail(device: torch.device) -> None:
    """An index out of range: on a device that is an error which it keeps, met by some later call."""
    table = torch.zeros(4, 4, device=device)
    torch.nn.functional.embedding(torch.tensor([10**6], device=device), table)


def digest(*tensors: torch.Tensor) -> str:
    """Of all their bits."""
    return hashlib.sha256(b"".join(one.detach().cpu().numpy().tobytes() for one in tensors)).hexdigest()[:16]


if __name__ == "__main__":
    main()
