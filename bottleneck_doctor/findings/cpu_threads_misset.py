"""The model computes with too few or too many threads for the cores that it may use.

## What it means
torch works with one thread while cores lie idle, or with more threads than there are cores.

## Why it costs
One thread leaves the other cores to nobody. Too many meet at a barrier after each operator, where all wait
for the one that has no core.

## How it is measured
The training process says how many threads torch uses; the machine, how many cores lay idle; the kernel, how
long the loop was ready and had no core; the profiled step, how much of the work is in large operators.

## Thresholds
Too few: one thread, at least 0.8 of a core idle, strangers on less than a quarter of one, and more than half
of the profiled CPU in operators of 0.2 ms and more (ours): smaller ones lose by being divided. Too many: more
threads than cores, all ranks together, and the loop held up for more than 0.1 of the step [catalogue F59], or
more than half of the profiled CPU in large operators: their threads spin while they wait for the last.

## When this advice is wrong
One thread may be meant, as where the script itself asks for it: several ranks on one machine, or reproducible
sums. The order of sums changes with the number of threads, and results with it, in the last digits. Where
strangers come and go, fewer threads are safer than more.

## Prediction
Too few: Amdahl on the large operators, each further core bringing nothing at worst, half of one likely
(ours). Too many: the time held up that strangers do not explain, half of it likely (ours); of large operators
0.2 to 2 ms each for every surplus thread per core (ours, measured on two cores with 3 to 32 threads: times
1.2 where operators take 10 ms, times 80 where they take 0.1 ms).

## References
torch.set_num_threads; torchrun, which sets OMP_NUM_THREADS=1 when it is unset; PyTorch Performance Tuning
Guide, "CPU specific optimizations".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.predict import WORTH
from ..analyse.steps import seconds_in
from ..analyse.threads import Threads, judge_threads
from ..model.computing import Computing, ScriptSettings
from ..model.diagnosis import Abstention, Diagnosis, Finding, HostLoad, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from ..model.run import Process
from .parts.computing import PROFILER, anatomy_like, case_of, threads_set_to
from .parts.entry import Case, Entry, cpu_loop, given

ID = "cpu-threads-misset"
TOLD = "OMP_NUM_THREADS={count} python train.py      # or first: torch.set_num_threads({count})"
SET_THREADS = Proposal(
    id="set-threads",
    title="let torch compute with another number of threads",
    fix=Fix(
        "in the environment; in the script only where nothing else was handed down", TOLD.format(count=4)
    ),
    apply="env",
    risk="results may differ in the last digits; cores that others take make all threads wait",
    treatments=threads_set_to(4),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when another number of threads would likely be faster."""
    scenario, held = given(diagnosis.scenario), held_share(diagnosis)
    judged = judge_threads(diagnosis.profile, diagnosis.loop, scenario, diagnosis.host, held)
    if judged.count is None:
        return Abstention(ID, "how many threads torch computes with")
    if judged.count == 1 and judged.large is None and (judged.idle or 0.0) > 0.5:
        return Abstention(ID, "a profiled step: whether operators are large enough to be divided")
    if not judged.trouble or judged.factor[2] < WORTH:
        return None
    known = (
        ("threads that torch computes with", "torch_threads", float(judged.count), "torch.get_num_threads"),
        ("cores that the job may use", "cores", diagnosis.host.cores, "affinity and control group"),
        ("cores that lay idle", "idle_cores", judged.idle, "/proc/stat"),
        ("share of the profiled CPU in operators of 0.2 ms and more", "large_operator_share", judged.large,
         PROFILER),
        ("share of the step for which the loop had no core", "held_share", held, "schedstat"),
    )  # fmt: skip
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    return Finding(ID, "model.threads", evidence, [_proposal(judged)])


def held_share(diagnosis: Diagnosis) -> float:
    """Share of the steady window in which the loop, outside of ``next``, was ready and had no core."""
    steps = diagnosis.steps
    walls = seconds_in(steps)
    held = sum(max(0.0, (step.queue or 0.0) - step.wait_queue) * step.steps for step in steps)
    return held / walls if walls > 0 else 0.0


def _proposal(judged: Threads) -> Proposal:
    count = judged.wanted
    return replace(
        SET_THREADS.at(None, TOLD.format(count=count)),
        title=f"let torch compute with {count} thread{'s' if count > 1 else ''}",
        factor=judged.factor,
        most=judged.most,
        basis="replay" if judged.most is None else "bound",
        treatments=threads_set_to(count),
    )


COST = StepCost(0.02)
TABLE = [Operator("aten::addmm", 6.0, 0.012), Operator("aten::mm", 6.0, 0.006)]


def _case(
    threads: int | None,
    large: float | None = 0.9,
    job_cores: float = 1.0,
    queue: float = 0.0,
    handed_down: str = "1",
) -> Diagnosis:
    """A model that computes for 20 ms on four cores; batches come for nothing."""
    anatomies = [anatomy_like(COST, large=large)] if large is not None else []
    facts = Computing(
        switches=[ScriptSettings(1, environment={"OMP_NUM_THREADS": handed_down})], anatomies=anatomies
    )
    sick = case_of(COST, facts, TABLE if large is not None else [])
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=threads)
    return replace(
        sick, profile=replace(sick.profile, processes=[trainer]),
        host=HostLoad(cores=4.0, job_cores=job_cores, foreign_cores=0.0),
        steps=[replace(step, queue=queue * step.wall) for step in sick.steps],
        scenario=replace(sick.scenario, cores=4.0) if sick.scenario else None,
    )  # fmt: skip


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("one thread for large products on four cores", _case(1), "fires", "set-threads"),
        Case("the script asks for one thread", _case(1, handed_down=""), "fires", "set-threads"),
        Case("sixteen threads fight for four cores", _case(16, queue=0.5), "fires", "set-threads"),
        Case("sixteen threads spin in large products", _case(16), "fires", "set-threads"),
        Case("sixteen threads beside small operators, and nobody is held up", _case(16, large=0.1), "silent"),
        Case("four threads on four cores", _case(4, queue=0.3), "silent"),
        Case("one thread for many small operators", _case(1, large=0.1), "silent"),
        Case("one thread, but no idle core", _case(1, job_cores=3.9), "silent"),
        Case("no step was profiled", _case(1, large=None), "abstains"),
    )


FINDING = Entry(ID, "model.threads", examine, needs=(cpu_loop,), remedies=(SET_THREADS,))
