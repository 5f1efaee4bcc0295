"""Cases of the findings in data_parallel.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.diagnosis import Diagnosis, StepCost
from bottleneck_doctor.model.loops import Passes
from tests.findings.builders import MODEL, PASSES, Case, abstains, fires, silent, two_ranks

# ddp-accum-sync
FOUR = replace(PASSES, per_step=4.0)
LOCAL = replace(PASSES, shared=False, count=1200, per_step=4.0, exchange_s=0.0)
SICK = StepCost(0.01, comm=0.009)


def ddp_accum_sync() -> tuple[Case, ...]:
    closure = replace(FOUR, in_optimizer=400)
    return (
        fires("four passes, four exchanges", two_ranks(SICK, passes=(FOUR,)), "ddp-no-sync"),
        silent("four passes, one exchange", two_ranks(SICK, passes=(replace(FOUR), LOCAL))),
        silent("every pass is followed by a step", two_ranks(SICK)),
        silent("an optimizer with a closure", two_ranks(SICK, passes=(closure,))),
        silent("nothing is wrapped", two_ranks(SICK, model=None, passes=())),
        abstains("no optimizer", two_ranks(SICK, model=MODEL, passes=(replace(FOUR, per_step=0.0),))),
    )


# ddp-overhead-flags
COPYING = replace(PASSES, exchange_cpu_s=0.0015)


def _flags_case(passes: Passes, options: dict[str, str]) -> Diagnosis:
    model = replace(MODEL, arguments={**MODEL.arguments, **options})
    return two_ranks(StepCost(0.012, comm=0.008), model=model, passes=(passes,))


def _one_bucket() -> Diagnosis:
    model = replace(MODEL, gradient_bytes=80_000_000, bucket_bytes=[80_000_000])
    return two_ranks(StepCost(0.05, comm=0.02), model=model)


def ddp_overhead_flags() -> tuple[Case, ...]:
    viewed = {"gradient_as_bucket_view": "True"}
    return (
        fires("gradients are copied back", _flags_case(COPYING, {}), "ddp-bucket-view"),
        fires("a needless search", _flags_case(PASSES, {"find_unused_parameters": "True", **viewed})),
        fires("one bucket of 80 MB", _one_bucket()),
        silent("gradients live in their buckets", _flags_case(COPYING, viewed)),
        silent("nothing is wrapped", two_ranks(StepCost(0.01), model=None, passes=())),
        abstains("no exchange was timed", two_ranks(StepCost(0.0, 0.02), passes=())),
    )


# dataparallel-used
def _dataparallel_case(devices: int) -> Diagnosis:
    model = replace(MODEL, kind="dp", devices=devices, world_size=1, backend="")
    return two_ranks(StepCost(0.0, 0.02), model=model, passes=(), world=1)


def dataparallel_used() -> tuple[Case, ...]:
    return (
        fires("four devices", _dataparallel_case(4), "use-ddp"),
        silent("one device", _dataparallel_case(1)),
        silent("DistributedDataParallel", two_ranks(StepCost(0.0, 0.02))),
    )
