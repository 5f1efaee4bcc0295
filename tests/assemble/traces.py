"""Traces written by hand, in the style of kineto's. Simulated: no figure is a device's."""

import json
from dataclasses import dataclass, field
from typing import Any

LOOP, BACKWARD = 100, 101  # threads

SGEMM = "ampere_sgemm_128x64_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
REDUCED = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass
class Pen:
    """Writes events; times in microseconds."""

    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0

    def on_host(
        self, name: str, begin: float, taken: float, thread: int = LOOP, cat: str = "cpu_op", **given: Any
    ) -> int:
        """A range or, with another category, a call; returns the range's number."""
        self.number += 1
        args = {"External id": self.number, **given}
        self.events.append(_event(cat, name, begin, taken, 1, thread, args))
        return self.number

    def step(self, begin: float, loader: int = 1) -> None:
        """The agent's mark."""
        self.on_host(f"bdoc#step#{loader}", begin, 0)

    def call(
        self, name: str, begin: float, taken: float = 5, thread: int = LOOP, correlation: int = 0
    ) -> None:
        """A call of the runtime."""
        self.on_host(name, begin, taken, thread, "cuda_runtime", correlation=correlation)

    def kernel(
        self, launched: float, begin: float, taken: float, name: str = ADD, thread: int = LOOP,
        stream: int = 7, operator: int = 0, cat: str = "kernel", launch: str = "cudaLaunchKernel",
        took: float = 5, **given: Any,
    ) -> None:  # fmt: skip
        """A launch and what the device did for it."""
        self.number += 1
        correlation = self.number
        self.call(launch, launched, took, thread, correlation)
        args = {"device": 0, "stream": stream, "correlation": correlation, "External id": operator, **given}
        self.events.append(_event(cat, name, begin, taken, 0, stream, args))

    def text(self) -> str:
        """The file."""
        other = [{"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python"}}]
        return json.dumps({"schemaVersion": 1, "traceEvents": other + self.events, "traceName": "t.json"})


def _event(
    cat: str, name: str, begin: float, taken: float, pid: int, tid: int, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "ts": 4e12 + begin, "dur": taken, "pid": pid, "tid": tid,
        "args": args,
    }  # fmt: skip


SHAPES = {
    "Input Dims": [[64, 512], [512, 256]],
    "Input type": ["float", "float"],
    "Concrete Inputs": ["", ""],
}
BATCHED = {"Input Dims": [[8, 64, 32], [8, 32, 16]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
CONVOLVED = {
    "Input Dims": [[16, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []],
    "Input type": ["float", "float", *[""] * 7],
    "Concrete Inputs": ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"],
}


def step(pen: Pen, at: float) -> None:
    product = pen.on_host("aten::mm", at + 10, 30, **SHAPES)
    pen.kernel(at + 20, at + 100, 200, SGEMM, operator=product, **{"blocks per SM": 0.25})
    batched = pen.on_host("aten::bmm", at + 50, 30, **BATCHED)
    name = "ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_nn"
    pen.kernel(at + 55, at + 300, 300, name, operator=batched, **{"blocks per SM": 4.0})
    convolved = pen.on_host("aten::cudnn_convolution", at + 90, 20, **CONVOLVED)
    name = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw"
    pen.kernel(at + 95, at + 600, 100, name, operator=convolved, stream=9, **{"blocks per SM": 1.0})
    pen.on_host("Optimizer.step#SGD.step", at + 120, 100, cat="user_annotation")
    update = pen.on_host("aten::add_", at + 130, 20)
    pen.kernel(at + 135, at + 700, 300, ADD, operator=update, **{"blocks per SM": 2.0})


def pages(steps: int = 4) -> Pen:
    pen = Pen()
    for place in range(steps):
        pen.step(place * 1000)
        step(pen, place * 1000)
    pen.step(steps * 1000)
    return pen
