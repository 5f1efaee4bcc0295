"""Kernels by name, idle moments of the device, and what shapes say. Traces are written by hand."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bottleneck_doctor.assemble.kernels import (
    TENSOR_KINDS,
    kind_of,
    passing_shapes,
    precision_of,
    uses_tensor_cores,
)
from bottleneck_doctor.assemble.trace import TraceTable, read_window
from bottleneck_doctor.model.device import Convolution
from tests.assemble.published import compared
from tests.assemble.traces import BACKWARD, REDUCED, Pen

# name, kind, precision, on tensor cores
PRODUCTS = [
    ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(float const*)", "matmul", "float32", False),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(P)", "matmul", "tf32", True),
    ("nvjet_tst_192x192_64x4_1x1_h_bz_coopB_TNN", "matmul", "bfloat16", True),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "matmul", "float16", True),
    ("nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT", "matmul", "float8", True),
    ("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1", "matmul", "bfloat16", True),
    ("triton_tem_fused_addmm_relu_3", "matmul", "", None),
    ("sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc", "convolution", "float16", True),
    ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized_bf16_128x64_32x6_nhwc>(P)",
     "convolution", "bfloat16", True),
    ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3>(int)", "convolution", "float32", False),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>(P)",
     "attention", "bfloat16", True),
    ("fmha_cutlassB_f32_aligned_64x64_k64_sm80(Params)", "attention", "float32", None),
]  # fmt: skip

OTHERS = [
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()",
     "elementwise"),
    ("void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(TensorIterator&)>()",
     "copy"),
    ("triton_red_fused__log_softmax_5", "reduction"),
    ("void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>(args)", "reduction"),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>>()",
     "optimizer"),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>()", "copy"),
    ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>()", "indexing"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true>(P)", "layout"),
    ("my_own_kernel(float*, int)", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "precision", "cores"), PRODUCTS)
def test_products_by_name(name: str, kind: str, precision: str, cores: bool | None) -> None:
    assert kind in TENSOR_KINDS
    assert kind_of(name) == kind
    assert precision_of(name, kind) == precision
    assert uses_tensor_cores(name, kind, precision) is cores


@pytest.mark.parametrize(("name", "kind"), OTHERS)
def test_other_kernels_by_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert uses_tensor_cores(name, kind, "float32") is False


def test_the_operator_says_what_a_product_is_for() -> None:
    name = "Cijk_Ailk_Bljk_BBS_BH_MT64x256x32_MI16x16x16x1"
    assert kind_of(name, "aten::miopen_convolution") == "convolution"
    assert kind_of(name, "aten::_scaled_dot_product_attention_math") == "attention"
    assert kind_of(name, "aten::mm") == "matmul"


STEP = 1000.0
PARTS = ("input", "launch", "sync", "transfer", "memory", "collective", "other", "unexplained")
HTOD = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def written(step: Callable[[Pen, float], None], steps: int = 5) -> TraceTable:
    """A loop of equal steps of a millisecond each."""
    pen = Pen()
    for place in range(steps):
        pen.step(place * STEP)
        step(pen, place * STEP)
    pen.step(steps * STEP)
    table = read_window(pen.text())
    assert table is not None
    assert table.window.steps == steps - 1
    _, off = compared(table, json.loads(pen.text()))  # with sums by instants, taken independently
    assert max(map(abs, off.values())) < 0.01, off
    return table


def shares(table: TraceTable) -> dict[str, float]:
    """The parts of a step in milliseconds, those that are nothing left out; together they are all of it."""
    window = table.window
    assert window.wall_s == pytest.approx(STEP * 1e-6)
    found = {name: round(getattr(window, name + "_s") * 1e3, 6) for name in (*PARTS, "busy")}
    assert sum(found.values()) == pytest.approx(window.wall_s * 1e3)
    return {name: value for name, value in found.items() if value}


def saturated(pen: Pen, at: float) -> None:
    """Launched early, two kernels fill the step but for a pause of 2 us between them."""
    pen.kernel(at + 10, at + 500, 498)
    pen.kernel(at + 20, at + 1000, 500)


def starved(pen: Pen, at: float) -> None:
    """600 us in the loader, then 100 us of other work until the launch."""
    pen.on_host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, 600)
    pen.kernel(at + 700, at + 710, 290)


def launching(pen: Pen, at: float) -> None:
    """Ten kernels of 20 us, one launched every 100 us, from the backward thread as well."""
    for place in range(10):
        begin = at + 100 * place
        pen.kernel(begin, begin + 10, 20, thread=BACKWARD if place % 2 else 100)
    pen.on_host("autograd::engine::evaluate_function: MulBackward0", at + 100, 5, BACKWARD)


def syncing(pen: Pen, at: float) -> None:
    """A value is read back at the end of each step; the next kernel comes 300 us after the device ran dry."""
    pen.kernel(at + 290, at + 300, 700)
    pen.on_host("bdoc#wait#7", at + 400, 615)
    pen.call("cudaStreamSynchronize", at + 405, 605)


def copying(pen: Pen, at: float) -> None:
    """A pageable copy of 400 us blocks the loop, then the kernel is launched."""
    pen.on_host("bdoc#copy#3", at, 450)
    pen.kernel(at, at + 20, 400, HTOD, cat="gpu_memcpy", launch="cudaMemcpyAsync", took=440)
    pen.kernel(at + 490, at + 500, 500)


def awaiting(pen: Pen, at: float) -> None:
    """Pinned copies on a stream of their own; the kernel, launched at once, waits for the second of them."""
    pen.kernel(at, at + 10, 200, PINNED, cat="gpu_memcpy", launch="cudaMemcpyAsync", stream=20)
    pen.kernel(at + 5, at + 220, 270, PINNED, cat="gpu_memcpy", launch="cudaMemcpyAsync", stream=20)
    pen.kernel(at + 20, at + 500, 500)


def prefetching(pen: Pen, at: float) -> None:
    """The same as `launching`, and meanwhile the next batch is copied by a stream that nobody waits for."""
    launching(pen, at)
    pen.kernel(at + 5, at + 10, 850, PINNED, cat="gpu_memcpy", launch="cudaMemcpyAsync", stream=20)


def allocating(pen: Pen, at: float) -> None:
    """The allocator asks the driver for 200 us."""
    pen.call("cudaMalloc", at + 100, 200)
    pen.kernel(at + 300, at + 310, 690)


def exchanging(pen: Pen, at: float) -> None:
    """A collective runs 400 us, half of it beside a kernel."""
    pen.kernel(at, at + 10, 590)
    pen.kernel(at + 20, at + 410, 400, REDUCED, stream=20)
    pen.kernel(at + 30, at + 810, 190)


def saving(pen: Pen, at: float) -> None:
    """A checkpoint is written while the device waits."""
    pen.on_host("bdoc#checkpoint#2", at + 50, 400)
    pen.kernel(at + 490, at + 500, 500)


def stalled(pen: Pen, at: float) -> None:
    """Two kernels were queued, and the second begins late for something that the trace does not hold."""
    pen.kernel(at, at + 10, 290)
    pen.kernel(at + 20, at + 600, 400)


def full(pen: Pen, at: float) -> None:
    """The launch waits 800 us for room in the device's queue."""
    pen.kernel(at + 10, at + 1000, 1000, took=800)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (saturated, {"busy": 1.0}),
        (starved, {"busy": 0.29, "input": 0.6, "launch": 0.11}),
        (launching, {"busy": 0.2, "launch": 0.8}),
        (syncing, {"busy": 0.7, "sync": 0.3}),
        (copying, {"busy": 0.5, "transfer": 0.44, "launch": 0.06}),
        (awaiting, {"busy": 0.5, "transfer": 0.47, "launch": 0.03}),
        (prefetching, {"busy": 0.2, "launch": 0.8}),
        (allocating, {"busy": 0.69, "memory": 0.2, "launch": 0.11}),
        (exchanging, {"busy": 0.78, "collective": 0.21, "launch": 0.01}),
        (saving, {"busy": 0.5, "other": 0.4, "launch": 0.1}),
        (stalled, {"busy": 0.69, "unexplained": 0.3, "launch": 0.01}),
    ],
)
def test_idle_time_belongs_to_whoever_caused_it(
    step: Callable[[Pen, float], None], expected: dict[str, float]
) -> None:
    assert shares(written(step)) == pytest.approx(expected)


def test_what_other_threads_do_is_nobodys_reason() -> None:
    def step(pen: Pen, at: float) -> None:
        pen.call("cudaStreamSynchronize", at, 900, thread=333)
        pen.on_host("enumerate(DataLoader)#_Prefetch.__next__", at, 900, thread=333)
        launching(pen, at)

    assert shares(written(step)) == pytest.approx({"busy": 0.2, "launch": 0.8})


@pytest.mark.parametrize(
    ("step", "host_ms"), [(saturated, 1.0), (starved, 0.4), (syncing, 0.395), (copying, 0.56), (full, 0.2)]
)
def test_the_hosts_own_time_is_without_its_waits(step: Callable[[Pen, float], None], host_ms: float) -> None:
    assert written(step).window.host_s * 1e3 == pytest.approx(host_ms)


STEPS = 5


def convolution(side: int, calls: float, backward: bool = False) -> Convolution:
    return Convolution(
        [8, 3, side, side], [16, 3, 3, 3], [1, 1], [1, 1], [1, 1], 1, "float32", calls, 1e-4, backward
    )


@pytest.mark.parametrize(
    ("convolutions", "passing"),
    [
        ([convolution(64, 1.0), convolution(32, 2.0)], 0),
        ([convolution(64, 0.6), convolution(64, 0.4)], 0),  # in two precisions
        ([convolution(side, 1 / STEPS) for side in range(40, 45)], 100),
        ([convolution(64, 1.0), convolution(64, 0.2, backward=True)], 0),
    ],
)
def test_shapes_that_some_steps_lack_pass(convolutions: list[Convolution], passing: float) -> None:
    assert passing_shapes(convolutions, STEPS) == passing


NUMBERED = {"Sequence number": 5, "Fwd thread id": 0, "Input Dims": [[8, 8]]}


@pytest.mark.parametrize(
    ("name", "given", "seconds"),
    [
        ("aten::relu", NUMBERED, 200e-6),
        ("aten::relu", {"Input Dims": [[8, 8]]}, 0.0),  # not recorded: no repetition
        ("aten::gelu", NUMBERED, 0.0),  # not in the forward pass: its derivative is recorded
        ("CompiledFunction", NUMBERED, None),
    ],
)
def test_forward_work_that_a_backward_pass_repeats(
    name: str, given: dict[str, Any], seconds: float | None
) -> None:
    pen = Pen()
    for place in range(4):
        at = place * 1000
        pen.step(at)
        pen.on_host("aten::relu", at + 10, 20, **NUMBERED)
        pen.kernel(at + 15, at + 20, 100)
        pen.on_host("autograd::engine::evaluate_function: ReluBackward0", at + 100, 100, BACKWARD)
        pen.on_host(name, at + 110, 20, BACKWARD, **given)
        pen.kernel(at + 115, at + 200, 200, thread=BACKWARD)
        pen.kernel(at + 150, at + 400, 300, thread=BACKWARD)
    pen.step(4000)
    table = read_window(pen.text())
    assert table is not None
    window = table.window
    assert window.backward_s == pytest.approx(5 / 6 * window.busy_s)
    assert window.forward_s == pytest.approx(1 / 6 * window.busy_s)
    assert table.recompute_s == (pytest.approx(seconds) if seconds is not None else None)
