"""What bdoc assumes of torch, CUDA and NVML, each asked of the device: ``python -m tests.gpu.assumed``.

Each answer is printed as JSON when it is there, so that those before a crash are known.
"""

import ctypes
import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

SLOWER = 1.05  # a launch after a recording, over one before
Answer = tuple[bool, object]  # whether it is as expected, and what was found


@dataclass(frozen=True)
class Question:
    """One assumption: what should be found, and what it means where something else is."""

    name: str
    expected: str
    means: str
    ask: Callable[[Any], Answer]


def _unused(at: Any) -> Answer:
    found, context = at.device_clock.find_accelerator(at.torch), at.torch._C._cuda_hasPrimaryContext(0)
    return found is None and not context, (found, context)


def _used(at: Any) -> Answer:
    at.x = at.torch.ones(1 << 20, device="cuda")
    at.one = at.device_clock.find_accelerator(at.torch)
    context = at.torch._C._cuda_hasPrimaryContext(0)
    at.torch.cuda.synchronize()
    return at.one is not None and context, at.one and at.one.describe()


def _memory(at: Any) -> Answer:
    found = at.one.memory()
    return found[1] > 0 and found[2] >= 4 << 20, found


def _refusal(at: Any) -> Answer:
    why = at.trace_window.refusal(at.torch, "cuda")
    return why == "", why or "none"


def _marks(at: Any) -> Answer:
    first = at.one.mark()
    at.torch.cuda._sleep(200_000_000)
    last, begun = at.one.mark(), time.perf_counter()
    early = at.one.passed(last)
    asked_us = (time.perf_counter() - begun) * 1e6
    at.torch.cuda.synchronize()
    taken_ms = at.one.between_ns(first, last) / 1e6
    right = not early and asked_us < 200 and at.one.passed(last) and 20 < taken_ms < 2000
    return right, f"passed at once: {early}, asking took {asked_us:.0f} µs, {taken_ms:.1f} ms between them"


def _cost(at: Any) -> Answer:
    marks = [at.one.mark() for _ in range(8)]
    begun = time.perf_counter()
    for _ in range(2000):
        at.one.release([marks.pop()])
        marks.append(at.one.mark())
    taken_us = (time.perf_counter() - begun) / 2000 * 1e6
    return taken_us <= 10, f"{taken_us:.1f} µs a mark"


def _capture(at: Any) -> Answer:
    from bottleneck_doctor.agent.compiler import patch_graphs

    patch_graphs(at.torch.cuda.graphs)
    seen: list[bool] = []
    graph, y = at.torch.cuda.CUDAGraph(), at.torch.zeros(8, device="cuda")
    with at.torch.cuda.graph(graph):
        y += 1
        seen.append(at.one.ready())
        other = threading.Thread(target=lambda: seen.append(at.one.ready()))
        other.start()
        other.join()
    graph.replay()
    at.torch.cuda.synchronize()
    after, value = at.one.ready(), y[0].item()
    return seen == [
        False,
        False,
    ] and after and value == 1, f"ready {seen}, afterwards {after}, result {value}"


def _nvml(at: Any) -> Answer:
    from bottleneck_doctor.sense.gpus import Gpus
    from bottleneck_doctor.sense.nvml import load_nvml

    gpus, mine = Gpus(load_nvml()), frozenset({os.getpid()})
    gpus.read(mine)
    until, found = time.monotonic() + 4, {}
    while time.monotonic() < until:
        at.x.mul_(1.0001)
    at.torch.cuda.synchronize()
    for _ in range(10):  # what is dear is read in turn
        found |= gpus.read(mine)
    wanted = ("busy_share", "sm_clock_mhz", "pcie_gen", "pcie_width")
    missing = [name for name in wanted if not any(key.endswith(name) for key in found)]
    uuid = at.one.describe()["uuid"]
    return not missing and uuid in str(gpus.static()), {"missing": missing, **found}


def _detached(at: Any) -> Answer:
    def launch_us() -> float:
        rounds = []
        for _ in range(7):
            at.torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(2000):
                at.small.add_(1)
            rounds.append((time.perf_counter() - begun) / 2000 * 1e6)
        return statistics.median(rounds)

    why = at.trace_window.refusal(at.torch, "cuda")
    if "CUPTI would stay" in why:
        return True, f"bdoc records nothing here: {why}"
    at.small, trace = at.torch.zeros(8, device="cuda"), at.trace_window.Trace("cuda")
    launch_us()
    before = launch_us()
    trace.prepare()
    trace.begin()
    launch_us()
    trace.end("", True)
    detaching = trace.detaching
    for _ in range(10):
        at.small.add_(1)
        time.sleep(at.trace_window.DETACH_NS / 1e10)
    at.torch.cuda.synchronize()
    trace.restore()
    after, getenv = launch_us(), ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    as_before = getenv(b"TEARDOWN_CUPTI") == (os.environ.get("TEARDOWN_CUPTI") or None)
    right = detaching and as_before and after <= SLOWER * before
    return right, f"a launch took {before:.2f} µs, then {after:.2f} µs; environment as before: {as_before}"


QUESTIONS = (
    Question(
        "device not yet used", "no device is found, and there is no context",
        "asking makes a context: half a gigabyte on devices that the script does not use", _unused,
    ),
    Question(
        "device in use", "it is found and described", "the device's clock is never read", _used,
    ),
    Question(
        "allocator's counters", "requests and peak are counted",
        "names in memory_stats have changed: no finding about memory", _memory,
    ),
    Question(
        "profiler window", "nothing speaks against it",
        "no run on this machine shows which kernels run, for the reason found", _refusal,
    ),
    Question(
        "marks", "not passed at once, asked in 0.2 ms, 20 to 2000 ms apart",
        "a query waits for the device, or marks do not tell its time", _marks,
    ),
    Question(
        "cost of a mark", "10 µs at most", "sampled steps cost more than is promised", _cost,
    ),
    Question(
        "capture of a graph", "no mark in any thread, and the graph is whole",
        "bdoc ends captures, or is part of the graph", _capture,
    ),
    Question(
        "NVML", "clocks, link and share of time busy, of the same device",
        "no finding about the device's state, or about another device's", _nvml,
    ),
    Question(
        "after a profiler window", "CUPTI lets go: launches take 5 % longer at most",
        "each run by default is slower from its window on (pytorch #144455)", _detached,
    ),
)  # fmt: skip


def main() -> None:
    """Ask all of them in this process, which uses the device for nothing else."""
    import torch

    from bottleneck_doctor.agent import device_clock, trace_window
    from bottleneck_doctor.agent.state import state

    state.captures, state.graphs, state.profiled = 0, False, False
    at = SimpleNamespace(torch=torch, device_clock=device_clock, trace_window=trace_window)
    for one in QUESTIONS:
        try:
            right, found = one.ask(at)
        except Exception as error:
            right, found = False, f"{type(error).__name__}: {error}"
        print(json.dumps([one.name, right, str(found)[:400]]), flush=True)


if __name__ == "__main__":
    main()
