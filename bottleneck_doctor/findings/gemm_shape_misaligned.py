"""Matrix products have sizes that tensor cores cannot take whole.

## What it means
Tensor cores work on small tiles. A vocabulary of 50257, or a hidden size of 1001, fits no tile: rows are not
aligned for the widest loads, and the libraries take slower kernels.

## Why it costs
The same arithmetic runs at a fraction of the rate, in every step, for a handful of columns.

## How it is measured
Shapes and device times of matrix products from a profiler's window: the rate (multiplications per second) of
those whose sizes divide, against those whose do not, in this very run. Not yet proven on hardware.

## Thresholds
Products with a side that no 8 (16 bits) or 4 (TF32) divides take 0.2 of all products' time [catalogue F37],
and 5 % of the step (ours).

## When this advice is wrong
Newer libraries use tensor cores for any shape, only less well: where the run itself shows no difference in
rate, nothing is offered. Padded outputs must not be counted in a loss: mask them. A ragged last batch is
cured by `drop_last`, not by padding.

## Prediction
By replay: at worst nothing. Likely: half of what the rates of aligned and misaligned products in this run
differ by; at best all of it, twice the rate at most (ours: sizes differ as well as alignment).

## References
NVIDIA, "Matrix Multiplication Background User's Guide", on dimension quantisation; cuBLAS, "Tensor Core
Usage".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceFacts, Product
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import WINDOW, beat_of, of_step, saving
from .parts.entry import LAUNCHING, SATURATED, Case, Entry, accelerated, device_step, given

ID = "gemm-shape-misaligned"
SIDES = {"float16": 8, "bfloat16": 8, "tf32": 4}  # elements in 16 bytes [NVIDIA matrix multiplication guide]
SHARE_OF_PRODUCTS = 0.2  # [catalogue F37]
SHARE_OF_STEP = 0.05  # (ours)
FASTER_AT_MOST = 2.0  # (ours)

PADDED = """\
vocabulary = -(-vocabulary // 64) * 64           # up to the next multiple of 64
head = nn.Linear(width, vocabulary)              # mask the added logits in the loss"""

PAD = Proposal(
    id="pad-dims",
    title="pad the sizes of large layers to multiples of 64",
    fix=Fix("round sizes up where layers are built", PADDED),
    basis="bound",
    effort="hours",
    risk="checkpoints of the old shape no longer load; padded outputs must be masked",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when misaligned products take time and run at a lower rate than aligned ones."""
    scenario, products = given(diagnosis.scenario), given(diagnosis.device).facts.products
    if products is None:
        return Abstention(ID, "the shapes of matrix products")
    eligible = [one for one in products if one.precision in SIDES]
    odd = [one for one in eligible if not _aligned(one)]
    took, all_took = (sum(one.device_s for one in some) for some in (odd, eligible))
    if of_step(diagnosis, took) < SHARE_OF_STEP:
        return None
    times = min(FASTER_AT_MOST, _rate([one for one in eligible if _aligned(one)]) / max(_rate(odd), 1e-12))
    if took < SHARE_OF_PRODUCTS * all_took or times <= 1.0:
        return None
    worst = max(odd, key=lambda one: one.device_s)
    evidence = [
        Evidence("share of the products' time with sizes that do not divide", "misaligned_share",
                 took / all_took, WINDOW),
        Evidence("rate of those whose sizes divide, over theirs", "aligned_rate_ratio", times, WINDOW),
        Evidence(f"costliest: {worst.m} x {worst.k} times {worst.k} x {worst.n} in {worst.precision}",
                 "product_s", worst.device_s, WINDOW),
    ]  # fmt: skip
    busy = max(beat_of(diagnosis).busy_s, all_took)
    lefts = [Change(device=saving(took / busy, one)) for one in (1.0, (1 + times) / 2, times)]
    proposal = replace(PAD, factor=spread(scenario, *lefts), most=gain(scenario, lefts[-1]))
    return Finding(ID, "device.compute", evidence, [proposal])


def _aligned(product: Product) -> bool:
    return all(size % SIDES[product.precision] == 0 for size in (product.m, product.n, product.k))


def _rate(products: list[Product]) -> float:
    """Multiplications per second of device time; nothing known counts as nothing gained."""
    took = sum(one.device_s for one in products)
    return sum(one.calls * one.m * one.n * one.k for one in products) / took if took > 0 else 0.0


HEAD = Product(4096, 50257, 768, "bfloat16", 3.0, 0.008)
BLOCKS = Product(4096, 3072, 768, "bfloat16", 72.0, 0.006)
ODD_FEW = Product(8, 10, 768, "bfloat16", 3.0, 0.0001)
ODD_QUICK = Product(4096, 50257, 768, "bfloat16", 3.0, 0.004)
AS_QUICK = Product(4096, 3072, 768, "bfloat16", 24.0, 0.002)


def _case(beat: DeviceStepBreakdown | None, *products: Product) -> Diagnosis:
    return accelerated(beat, DeviceFacts(products=list(products)))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("a vocabulary of 50257", _case(SATURATED, HEAD, BLOCKS), "fires", "pad-dims"),
        Case("only the ten classes at the end", _case(SATURATED, ODD_FEW, BLOCKS), "silent"),
        Case("misaligned at the same rate", _case(SATURATED, ODD_QUICK, AS_QUICK), "silent"),
        Case("everything divides", _case(LAUNCHING, BLOCKS), "silent"),
        Case("shapes were not recorded", accelerated(SATURATED), "abstains"),
        Case("only the driver was asked", _case(None, HEAD), "abstains"),
    )


FINDING = Entry(ID, "device.compute", examine, device=True, needs=(device_step,), remedies=(PAD,))
