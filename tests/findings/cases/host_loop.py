"""Cases of the findings in host_loop.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, EpochStart, FeederLoad, Scenario, StepCost
from bottleneck_doctor.model.instruments import Operation, Operator, Stack
from bottleneck_doctor.model.loops import Making
from bottleneck_doctor.model.profile import Compilation, Computing, ScriptSettings
from tests.findings.builders import Case, abstains, cpu_run, dispatch_like, fires, silent, steady_run

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


# sampler-on-critical-path
LOOP_COST = StepCost(0.0, 0.008)


def _sampler_case(draw_s: float | None, first_s: float = 0.0) -> Diagnosis:
    """Two fast workers; drawing indices takes ``draw_s`` a batch, and ``first_s`` for an epoch's first."""
    work, epoch = BatchCost(0.001), EpochStart(133, first_s, first_s)
    scene = Scenario((work,), (LOOP_COST,), workers=2, cores=2.0, sampling=draw_s or 0.0, epoch=epoch)
    base = steady_run(work, LOOP_COST, workers=2, scenario=scene)
    loop = replace(base.loop, epochs=replace(base.loop.epochs, t=[0.0, 1.0, 2.0])) if base.loop else None
    makings = [Making("1:1", 400, draw_s=draw_s, first_draws_s=[first_s] * 3)]
    return replace(base, loop=loop, profile=replace(base.profile, makings=makings))


def sampler_on_critical_path() -> tuple[Case, ...]:
    return (
        fires("a sampler that looks up for each batch", _sampler_case(0.002), "sampler-vectorise"),
        fires("weights of a million items are drawn at once", _sampler_case(1e-5, 0.3), "sampler-vectorise"),
        silent("torch's own sampler", _sampler_case(1.5e-5, 2e-4)),
        abstains("the draws were not timed", _sampler_case(None)),
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


def debug_mode_on() -> tuple[Case, ...]:
    off = ScriptSettings(1, anomaly=False)
    return (
        fires("anomaly detection is on", _debug_case(replace(off, anomaly=True)), "drop-debug"),
        fires("for a part of the step", _debug_case(replace(off, noticed=["anomaly"]), []), "drop-debug"),
        fires("coverage traces the loop", _debug_case(replace(off, tracer="coverage"), []), "drop-debug"),
        silent("all is off", _debug_case(off)),
        abstains("nothing was read", _debug_case(None)),
    )


# recompile-churn
RECOMPILE_COST = StepCost(0.02)


def _recompile_case(found: Compilation | None) -> Diagnosis:
    """400 steps of 20 ms that end at 10 s."""
    sick = cpu_run(RECOMPILE_COST, Computing(compilations=[found] if found else []))
    return replace(sick, steps=[replace(sick.steps[0], t=2.0 + 0.02 * place) for place in range(400)])


def recompile_churn() -> tuple[Case, ...]:
    early = Compilation(1, [0.5, 1.0], [1, 2], [0, 0], [0.5, 1.0])
    churn = Compilation(1, [0.5, 3.0, 5.0, 7.0], [1, 3, 5, 7], [0, 1, 2, 3], [0.5, 1.0, 1.5, 2.0])
    return (
        fires("each length is compiled anew", _recompile_case(churn), "compile-dynamic"),
        silent("compiled before the steady window", _recompile_case(early)),
    )
