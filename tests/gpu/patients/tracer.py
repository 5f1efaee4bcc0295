"""What ran in a few steps, by torch.profiler: kernel seconds, and calls that wait for the device."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

SPAN = "the traced steps"
RUNTIME = frozenset({"cuda_runtime", "cuda_driver"})
# Calls that return only when the device has come to something, or may.
SYNCHRONISING = frozenset(
    """cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize cudaMemcpy cudaMemcpy2D cudaMalloc
    cudaFree cudaHostAlloc cudaFreeHost cuStreamSynchronize cuCtxSynchronize cuEventSynchronize
    hipStreamSynchronize hipDeviceSynchronize hipEventSynchronize hipMemcpy hipMemcpyWithStream hipMalloc
    hipFree hipHostMalloc""".split()
)


class Tracer:
    """One stretch of steps under the profiler."""

    def __init__(self) -> None:
        self._profile: Any = None
        self._span: Any = None

    def begin(self) -> None:
        """From here on; the device is idle when this returns."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=kinds)
        self._profile.start()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._span = torch.profiler.record_function(SPAN)
        self._span.__enter__()

    def end(self, steps: int) -> dict[str, Any]:
        """Up to here; what ran, per step."""
        self._span.__exit__(None, None, None)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._profile.stop()
        with tempfile.TemporaryDirectory(prefix="bdoc-trace-") as folder:
            path = Path(folder) / "trace.json"
            self._profile.export_chrome_trace(str(path))
            events = json.loads(path.read_text(errors="replace"))["traceEvents"]
        return summary(events, steps)


def summary(events: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """Kernel and copy seconds per step (unions over all streams), kernels per step, and how often each
    synchronising call was made from the span's begin to its end, in all."""
    span = next(one for one in events if one.get("name") == SPAN and one.get("cat") == "user_annotation")
    begin, end = span["ts"], span["ts"] + span["dur"]
    timed = [one for one in events if "dur" in one and one["ts"] >= begin]
    kernels = [one for one in timed if one.get("cat") == "kernel"]
    copies = [one for one in timed if one.get("cat") == "gpu_memcpy"]
    calls = [one["name"] for one in timed if one.get("cat") in RUNTIME and one["ts"] <= end]
    return {
        "steps": steps,
        "kernel_s": union_us((one["ts"], one["dur"]) for one in kernels) / 1e6 / steps,
        "copy_s": union_us((one["ts"], one["dur"]) for one in copies) / 1e6 / steps,
        "kernels": len(kernels) / steps,
        "launches": sum("aunch" in name for name in calls) / steps,
        "synchronising": dict(
            sorted(Counter(name for name in calls if plain(name) in SYNCHRONISING).items())
        ),
    }


def plain(name: str) -> str:
    """The call's name without the version that some tables append to it."""
    return name.split("_v")[0].split("_ptsz")[0]


def union_us(spans: Iterable[tuple[float, float]]) -> float:
    """The length of what at least one of (begin, duration) covers."""
    total, reached = 0.0, float("-inf")
    for begin, length in sorted(spans):
        end = begin + length
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
