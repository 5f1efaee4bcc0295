"""Cases of the findings in host_loop.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.device import DeviceWindow
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, FeederLoad, Scenario, StepCost
from bottleneck_doctor.model.instruments import Operation, Operator, Stack
from bottleneck_doctor.model.profile import Compilation, CompilerNote, Computing, ScriptSettings
from tests.findings.builders import (
    LAUNCHING,
    SATURATED,
    Case,
    abstains,
    cpu_run,
    dispatch_like,
    fires,
    gpu_run,
    kernels,
    silent,
    steady_run,
)

# host-python-hot
PYTHON_SICK = StepCost(0.004, python=0.012, launch=0.001)
HEALTHY = StepCost(0.02, python=0.001, launch=0.001)
PYTHON_LOOP = """\
for x, y in loader:
    logits = model(prepare(x))
    loss = cross_entropy(logits, y)
    loss.backward()
    confusion(logits, y)
    weights_file.write(dump(model))
"""
CONFUSION = """\
def confusion(logits, y):
    for scores, true in zip(logits.tolist(), y.tolist()):
        table[true][scores.index(max(scores))] += 1
"""
PREPARE = """\
def prepare(x):
    return canvas(x).clamp(0, 1)
"""
SOURCES = [
    FunctionSource("train.py", "<module>", 26, PYTHON_LOOP),
    FunctionSource("metrics.py", "confusion", 6, CONFUSION),
    FunctionSource("render.py", "prepare", 3, PREPARE),
    FunctionSource("dump.py", "dump", 1, CONFUSION.replace("confusion", "dump")),
]
TORCH = "run (/x/site-packages/torch/autograd/graph.py:9)"


def _python_case(cost: StepCost, line: int = 30, below: str = "confusion (metrics.py:8)") -> Diagnosis:
    """A loop whose Python, model and calls take ``cost``, seen at a line and in what it calls."""
    sick = cpu_run(cost, Computing(anatomies=[dispatch_like(cost)]), [Operator("aten::mm", 3.0, 0.003)])
    main = f"<module> (train.py:{line})"
    stacks = [
        Stack(1, "trainer", "MainThread", [main, below], 80),
        Stack(1, "trainer", "MainThread", ["<module> (train.py:29)", TORCH], 30),
    ]
    return replace(sick, profile=replace(sick.profile, stacks=stacks, sources=SOURCES))


def _called_by_library() -> Diagnosis:
    """A callback of the user's, in a loop that no source of the user's shows."""
    sick = _python_case(PYTHON_SICK)
    fit, callback = "fit (/x/site-packages/lightning/trainer.py:5)", "confusion (metrics.py:8)"
    stacks = [Stack(1, "trainer", "MainThread", ["<module> (train.py:40)", fit, callback], 80)]
    return replace(sick, profile=replace(sick.profile, stacks=stacks, sources=SOURCES[1:2]))


def host_python_hot() -> tuple[Case, ...]:
    bare = replace(_python_case(PYTHON_SICK).profile, computing=Computing())
    return (
        fires("a confusion matrix", _python_case(PYTHON_SICK), "vectorise-loop-code metrics-less"),
        fires("from stacks alone", replace(_python_case(PYTHON_SICK), profile=bare), "vectorise-loop-code"),
        fires(
            "the batch is prepared",
            _python_case(PYTHON_SICK, 27, "prepare (render.py:4)"),
            "cheaper-step-code",
        ),
        fires("a library calls it", _called_by_library(), "vectorise-loop-code"),
        silent("the weights are written out", _python_case(PYTHON_SICK, 31, "dump (dump.py:3)")),
        silent("the model computes", _python_case(HEALTHY)),
    )


# gc-pauses
PAUSES = Operation("collection", 1, 0, "full", 8, 1.6, 1.6, 0.25)
YOUNG = replace(PAUSES, name="young", count=800, max_s=0.003)
GC_SICK = StepCost(0.01, collect=0.004)


def _gc_case(*pauses: Operation, cost: StepCost = GC_SICK) -> Diagnosis:
    return steady_run(BatchCost(1e-4), cost, operations=pauses)


def gc_pauses() -> tuple[Case, ...]:
    brief = StepCost(0.01, collect=5e-5)
    return (
        fires("full collections of a large heap", _gc_case(PAUSES), "gc-freeze"),
        fires("young collections of much cyclic garbage", _gc_case(YOUNG), "gc-interval"),
        silent("a short collection now and then", _gc_case(cost=brief)),
    )


# gil-contention
GIL_LOOP = ["<module> (/data/train.py:60)", "main (/data/train.py:41)"]
OTHER = ["run (/usr/lib/python3.11/threading.py:982)", "count (/data/train.py:20)"]


def _gil_case(main: tuple[int, int | None], other: int | None) -> Diagnosis:
    """A loop of 10 ms, 6 of them blocked: samples of its own line, and how often another thread ran."""
    scene = Scenario((BatchCost(1e-4),), (StepCost(0.004, python=0.006),), cores=2.0)
    base = steady_run(BatchCost(1e-4), StepCost(0.004, python=0.006), scenario=scene)
    stacks = [
        Stack(1, "trainer", "MainThread", GIL_LOOP, *main),
        Stack(1, "trainer", "Thread-1 (count)", OTHER, 100, other),
    ]
    return replace(base, profile=replace(base.profile, stacks=stacks))


def _fed() -> Diagnosis:
    """The same; the other thread makes the loop's batches."""
    base = _gil_case((100, 45), 97)
    scene = Scenario((BatchCost(1e-4),), (StepCost(0.004),), cores=2.0, feeders=FeederLoad(1), crowded=0.006)
    return replace(base, scenario=scene)


def gil_contention() -> tuple[Case, ...]:
    return (
        fires("a thread that counts in Python", _gil_case((100, 45), 97), "processes-not-threads"),
        fires("a thread that makes batches in Python", _fed(), "processes-not-threads"),
        silent("the line sleeps", _gil_case((100, 2), 97)),
        abstains("running threads are not known", _gil_case((100, None), None)),
    )


# debug-mode-on
DEBUG_COST = StepCost(0.006, launch=0.002)
CHECKED = [
    Operator("aten::mm", 20.0, 0.002),
    Operator("aten::any", 60.0, 8e-4),
    Operator("aten::ne", 60.0, 8e-4),
]


def _debug_case(known: ScriptSettings | None, table: list[Operator] = CHECKED) -> Diagnosis:
    """A step of 8 ms."""
    facts = Computing(switches=[known] if known else [], anatomies=[dispatch_like(DEBUG_COST)])
    return cpu_run(DEBUG_COST, facts, table)


TURNS = DeviceWindow(400, 0.02, 0.012, launch_s=0.008, host_s=0.02)  # each launch waits for its kernel


def _debugged_gpu(known: ScriptSettings, beat: DeviceWindow = TURNS) -> Diagnosis:
    found = [kernels("convolution", 0.4, "tf32"), kernels("elementwise", 0.2)]
    return gpu_run(beat, Computing(switches=[known]), found=found)


def debug_mode_on() -> tuple[Case, ...]:
    off = ScriptSettings(1, anomaly=False)
    blocking = replace(off, environment={"CUDA_LAUNCH_BLOCKING": "1"})
    settled = replace(off, deterministic=True)
    return (
        fires("anomaly detection is on", _debug_case(replace(off, anomaly=True)), "drop-debug"),
        fires("for a part of the step", _debug_case(replace(off, noticed=["anomaly"]), []), "drop-debug"),
        fires("coverage traces the loop", _debug_case(replace(off, tracer="coverage"), []), "drop-debug"),
        silent("all is off", _debug_case(off)),
        silent("each launch waits, and there are none", _debug_case(blocking)),
        fires("anomaly detection on a GPU", _debugged_gpu(replace(off, anomaly=True)), "drop-debug"),
        fires("each launch waits for its kernel", _debugged_gpu(blocking), "drop-debug"),
        fires("deterministic convolutions", _debugged_gpu(settled, SATURATED), "drop-debug"),
        silent("none of it on a GPU", _debugged_gpu(off)),
        abstains("nothing was read", _debug_case(None)),
    )


# recompile-churn
SIZE = "tensor 'x' size mismatch at index 0. expected 32, actual 17"
RECOMPILE_COST = StepCost(0.02)


def _recompile_case(found: Compilation | None) -> Diagnosis:
    """400 steps of 20 ms that end at 10 s."""
    sick = cpu_run(RECOMPILE_COST, Computing(compilations=[found] if found else []))
    return replace(sick, steps=[replace(sick.steps[0], t=2.0 + 0.02 * place) for place in range(400)])


def _recompile_gpu(found: Compilation, guard: str = "") -> Diagnosis:
    notes = [CompilerNote(1, "recompilation", guard, 6, Location("model.py", 30, "forward"))] if guard else []
    sick = gpu_run(LAUNCHING, Computing(compilations=[found], compiler_notes=notes))
    return replace(sick, steps=[replace(sick.steps[0], t=2.0 + 0.02 * place) for place in range(400)])


def recompile_churn() -> tuple[Case, ...]:
    early = Compilation(1, [0.5, 1.0], [1, 2], [0, 0], [0.5, 1.0])
    churn = Compilation(1, [0.5, 3.0, 5.0, 7.0], [1, 3, 5, 7], [0, 1, 2, 3], [0.5, 1.0, 1.5, 2.0])
    recorded = replace(churn, recorded=[1, 3, 5, 7])
    return (
        fires("each length is compiled anew", _recompile_case(churn), "compile-dynamic"),
        silent("compiled before the steady window", _recompile_case(early)),
        fires("each length, on a GPU", _recompile_gpu(recorded, SIZE), "compile-dynamic -steady-guards"),
        fires(
            "each step, on a GPU", _recompile_gpu(churn, "L['step'] == 3"), "steady-guards -compile-dynamic"
        ),
        silent("once, on a GPU", _recompile_gpu(early)),
    )
