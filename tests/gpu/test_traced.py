"""A trace is read as it should be: unions, only what lies in the span, and each synchronising call."""

from __future__ import annotations

from typing import Any

from tests.gpu.patients.traced import SPAN, summary, union_us


def event(cat: str, name: str, ts: float, dur: float) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}


TRACE = [
    {"ph": "M", "name": "process_name"},
    event("user_annotation", SPAN, 100.0, 1000.0),
    event("gpu_user_annotation", SPAN, 100.0, 1500.0),
    event("kernel", "before", 50.0, 10.0),
    event("kernel", "gemm", 200.0, 300.0),
    event("kernel", "gemm on another stream", 400.0, 300.0),
    event("kernel", "launched in the span, run after it", 1200.0, 100.0),
    event("gpu_memcpy", "Memcpy HtoD", 150.0, 40.0),
    event("cuda_runtime", "cudaLaunchKernel", 110.0, 5.0),
    event("cuda_runtime", "cudaStreamSynchronize", 300.0, 50.0),
    event("cuda_runtime", "cudaStreamSynchronize", 600.0, 50.0),
    event("cuda_driver", "cuStreamSynchronize_ptsz", 700.0, 5.0),
    event("cuda_runtime", "cudaEventQuery", 800.0, 1.0),
    event("cuda_runtime", "cudaDeviceSynchronize", 1150.0, 50.0),
]


def test_what_ran_is_counted_per_step() -> None:
    told = summary(TRACE, steps=2)
    assert told["kernel_s"] == (500 + 100) / 1e6 / 2
    assert told["copy_s"] == 40 / 1e6 / 2
    assert (told["kernels"], told["launches"]) == (1.5, 0.5)


def test_only_calls_of_the_span_that_wait_are_counted() -> None:
    assert summary(TRACE, steps=2)["synchronising"] == {
        "cuStreamSynchronize_ptsz": 1,
        "cudaStreamSynchronize": 2,
    }


def test_a_union_counts_no_instant_twice() -> None:
    assert union_us([(0, 10), (5, 2), (8, 4), (20, 1)]) == 13
    assert union_us([]) == 0
