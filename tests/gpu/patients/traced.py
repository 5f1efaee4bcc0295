"""What a trace of torch.profiler says about some steps: pure functions, without torch."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

SPAN = "the traced steps"
RUNTIME = frozenset({"cuda_runtime", "cuda_driver"})
# Calls that return only when the device has come to something, or may.
SYNCHRONISING = frozenset(
    """cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize cudaMemcpy cudaMemcpy2D cudaMalloc
    cudaFree cudaHostAlloc cudaFreeHost cuStreamSynchronize cuCtxSynchronize cuEventSynchronize
    hipStreamSynchronize hipDeviceSynchronize hipEventSynchronize hipMemcpy hipMemcpyWithStream hipMalloc
    hipFree hipHostMalloc""".split()
)


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
