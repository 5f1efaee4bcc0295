"""Cases of the findings in ranks.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.analyse.ranks import rank_steps
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Operation, Stack
from bottleneck_doctor.model.loops import LoopBody, Passes
from bottleneck_doctor.model.run import Process
from tests.findings.builders import MODEL, PASSES, Case, abstains, fires, silent, two_ranks

# rank-straggler
SLOW = StepCost(0.01, comm=0.001, straggler=0.01)


def _one_of_two() -> Diagnosis:
    """The other rank was not seen."""
    known = two_ranks(SLOW, 0.01)
    loops, processes = known.profile.loops[:1], known.profile.processes[:1]
    return replace(known, profile=replace(known.profile, loops=loops, processes=processes))


def _on_busy_cores(late: Diagnosis) -> Diagnosis:
    return replace(late, host=replace(late.host, foreign_cores=1.0))


def _validates(others: int) -> Diagnosis:
    """The other rank validates for all; this one computes there in ``others`` of 60 samples."""
    known = two_ranks(SLOW, 0.01)
    stacks = [
        Stack(pid, "trainer", "MainThread", ["main (/x/train.py:9)", f"{name} (/x/train.py:3)"], 60, running)
        for pid, name, running in ((2, "validate", 60), (2, "Net.forward", 30), (1, "validate", others),
                                   (1, "Net.forward", 30))
    ]  # fmt: skip
    body = LoopBody("/x/train.py", "main", 5, 12)
    loops = [replace(one, body=body) for one in known.profile.loops]
    return replace(known, loop=loops[0], profile=replace(known.profile, stacks=stacks, loops=loops))


def _now_and_then() -> Diagnosis:
    """The other rank validates in every fourth step; in the rest, this one is slightly slower."""
    known = _validates(0)
    tables = [
        replace(one.table, wall_s=[0.05] * 60, exchange_s=[first, *[then] * 3] * 15)
        for one, (first, then) in zip(known.profile.loops, ((0.041, 0.001), (0.001, 0.002)), strict=True)
    ]
    loops = [replace(one, table=table) for one, table in zip(known.profile.loops, tables, strict=True)]
    return replace(known, loop=loops[0], profile=replace(known.profile, loops=loops))


def _waits_for_data(elsewhere: bool) -> Diagnosis:
    """This rank's batches take 20 ms longer than the other one's, which may run on another machine."""
    known = two_ranks(StepCost(0.05, comm=0.001), -0.02)
    assert known.scenario is not None
    waits = zip(known.profile.loops, (0.03, 0.01), strict=True)
    loops = [replace(one, table=replace(one.table, wait_s=[wait] * 60)) for one, wait in waits]
    profile = replace(known.profile, loops=loops)
    if elsewhere:
        other = replace(rank_steps(profile, loops[1]), host="other", pid=9)
        profile = replace(profile, loops=loops[:1], elsewhere=[other])
    steps = [replace(one, wait=0.03) for one in known.steps]
    scenario = replace(known.scenario, works=(BatchCost(0.03),))
    return replace(known, profile=profile, loop=loops[0], steps=steps, scenario=scenario)


def _single() -> Diagnosis:
    known = two_ranks(StepCost(0.01), model=None, passes=())
    only = [Process(1, 0, "trainer", 0.0)]
    return replace(known, profile=replace(known.profile, loops=known.profile.loops[:1], processes=only))


def rank_straggler() -> tuple[Case, ...]:
    by_turns = two_ranks(replace(SLOW, straggler=0.005), 0.005, rotating=True)
    return (
        fires("the other rank needs 10 ms more", two_ranks(SLOW, 0.01), "balance-ranks"),
        fires("the other rank alone validates", _validates(1), "balance-ranks"),
        fires("it validates now and then", _now_and_then(), "balance-ranks"),
        fires("both validate, it the longer", _validates(40), "balance-ranks"),
        fires("this rank's data takes longer", _waits_for_data(False), "balance-ranks"),
        fires("it does, on a machine of its own", _waits_for_data(True), "none"),
        fires("now one, now the other", by_turns),
        silent("the same, on busy cores", _on_busy_cores(by_turns)),
        fires("it validates now and then, on busy cores", _on_busy_cores(_now_and_then()), "balance-ranks"),
        silent("both need the same", two_ranks(StepCost(0.01, comm=0.005))),
        silent("there is one rank", _single()),
        abstains("the other rank was not seen", _one_of_two()),
    )


# comm-bandwidth-bound
MODEL_LINE = Location("train.py", 12, "main")
SICK, WELL = StepCost(0.01, comm=0.008), StepCost(0.03, comm=0.001)


def _asleep_in_collectives() -> Diagnosis:
    """The loop adds up its gradients with calls of its own."""
    return two_ranks(SICK, model=None, passes=())


def _broadcasting() -> Diagnosis:
    """DDP sends buffers before each forward pass, and hardly any gradients after it."""
    sick = two_ranks(SICK, passes=(replace(PASSES, exchange_s=0.001),))
    sent = Operation("exchange", 1, 0, "broadcast", PASSES.count, 0.007 * PASSES.count, 0.1, 0.01, MODEL_LINE)
    return replace(sick, profile=replace(sick.profile, operations=[sent]))


def _unheard() -> Diagnosis:
    """DistributedDataParallel on an accelerator: the training thread waits for no exchange."""
    return two_ranks(StepCost(0.0, 0.02), passes=())


FSDP = {"groups": "7", "resharded": "7", "param_dtype": "None", "reduce_dtype": "None"}


def _sharded(kind: str, arguments: dict[str, str]) -> Diagnosis:
    """Seven modules whose parameters are gathered for each pass."""
    sick = two_ranks(SICK, model=replace(MODEL, kind=kind, arguments=arguments), passes=())
    calls = [
        Operation("exchange", 1, 0, name, 400, taken, 0.1, 0.01, MODEL_LINE, module="layers.3")
        for name, taken in (("all_gather_single", 2.2), ("reduce_scatter_single", 1.0))
    ]
    machine = replace(sick.profile.machine, memory_bytes=16 << 30)
    return replace(sick, profile=replace(sick.profile, operations=calls, machine=machine))


def _many(backend: str) -> Diagnosis:
    return two_ranks(SICK, model=replace(MODEL, backend=backend), world=8)


def _merged() -> Diagnosis:
    """Two ranks, each profiled on its own machine."""
    sick = two_ranks(SICK)
    first, second = sick.profile.loops
    elsewhere = [replace(rank_steps(sick.profile, second), host="another")]
    return replace(sick, profile=replace(sick.profile, loops=[first], elsewhere=elsewhere))


def comm_bandwidth_bound() -> tuple[Case, ...]:
    return (
        fires("two ranks of one machine", two_ranks(SICK), "bigger-batch"),
        fires("a mask of 34 MB is broadcast in each forward pass", _broadcasting(), "ddp-local-buffers"),
        fires("six more ranks on other machines", _many("gloo"), "faster-network"),
        fires("the same over nccl", _many("nccl"), "grad-compress"),
        fires("a rank on another machine, which another run saw", _merged(), "faster-network"),
        fires("the loop's own all_reduce", _asleep_in_collectives()),
        silent("the backward pass hides it", two_ranks(WELL)),
        silent("the waiting is for a slow rank", two_ranks(StepCost(0.01, straggler=0.01), 0.01)),
        fires("a sharded model", _sharded("fsdp", FSDP), "fsdp-no-reshard"),
        fires("DeepSpeed's ZeRO", _sharded("zero", {"stage": "3"}), "zero-stage-0"),
        abstains("no exchange was timed", _unheard()),
    )


# ddp-accum-sync
FOUR = replace(PASSES, per_step=4.0)
LOCAL = replace(PASSES, shared=False, count=1200, per_step=4.0, exchange_s=0.0)
DDP_SICK = StepCost(0.01, comm=0.009)


def ddp_accum_sync() -> tuple[Case, ...]:
    closure = replace(FOUR, in_optimizer=400)
    return (
        fires("four passes, four exchanges", two_ranks(DDP_SICK, passes=(FOUR,)), "ddp-no-sync"),
        silent("four passes, one exchange", two_ranks(DDP_SICK, passes=(replace(FOUR), LOCAL))),
        silent("every pass is followed by a step", two_ranks(DDP_SICK)),
        silent("an optimizer with a closure", two_ranks(DDP_SICK, passes=(closure,))),
        silent("nothing is wrapped", two_ranks(DDP_SICK, model=None, passes=())),
        abstains("no optimizer", two_ranks(DDP_SICK, model=MODEL, passes=(replace(FOUR, per_step=0.0),))),
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
