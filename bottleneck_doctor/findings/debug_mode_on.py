"""Debugging switches are on that slow down every step.

## What it means
Anomaly detection, a profiler, a trace function or Python's development mode is on while the training runs.

## Why it costs
Anomaly detection takes a Python traceback for each operator of the forward pass, and looks for NaN in every
gradient. A profiler notes each operator; a trace function is called for each line of Python.

## How it is measured
The switches are read when the training begins to move and during backward passes. The profiled step counts
anomaly detection's checks and their time.

## Thresholds
On at all, and 3 % to be gained [catalogue 2.3].

## When this advice is wrong
A hunt for a NaN needs them: then this is what it costs. Coverage in a test, and deterministic algorithms, are
choices too; the latter cost little on a CPU and are not named. `bdoc prove` tries a run without anomaly
detection or trace function; a profiler and development mode are left on, since scripts use what they give.

## Prediction
Anomaly detection: the checks' own time and 30 µs for each of them (measured: 27 to 33), half of it at
worst. Profilers: a range from nothing over 6 % to 14 % (measured). Trace functions and development mode: a
range from nothing over 5 % to a half (ours).

## References
torch.autograd.set_detect_anomaly; PyTorch Performance Tuning Guide, "Disable debugging APIs"; Python's
development mode.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing, ScriptSettings
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import spread
from .parts.computing import (
    PROFILER,
    SETTINGS,
    Factor,
    anatomy_like,
    case_of,
    operators,
    own_s,
    share_of,
    spared,
    switches,
)
from .parts.entry import Case, Entry, cpu_loop, given

ID = "debug-mode-on"
TRACEBACK_S = 3e-5  # for each gradient that is checked [catalogue F49, measured]
CHECKS = ("any", "ne", "isnan", "_is_any_true", "item")
DROPPED = ("anomaly", "tracer")  # what a trial can do without
AWAY = (0.5, 1.0, 1.3)  # of what it is reckoned to cost (ours)
PROFILED = (1.0, 1.06, 1.14)  # [catalogue F49, measured]
TRACED = (1.0, 1.05, 1.5)  # (ours)
GUESSED = (1.0, 1.5, 5.0)  # anomaly detection in a step that was not profiled [catalogue F49, measured]

SWITCH_OFF = Proposal(
    id="drop-debug",
    title="switch debugging aids off",
    fix=Fix(
        "once the bug is found",
        "torch.autograd.set_detect_anomaly(False)     # and no `with detect_anomaly()`",
    ),
    apply="hook",
    risk="what it would have caught goes unseen",
    basis="bound",
    treatments=(Treatment("debug", {"drop": "anomaly"}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a switch is on that costs every step something."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None:
        return Abstention(ID, "what the script has set")
    found = _found(diagnosis, scenario, known)
    if not found:
        return None
    text, dropped, factor, how = max(found, key=lambda one: one[2][1])
    if factor[1] < WORTH:
        return None
    evidence = [Evidence(f"{switch} is on", name, 1.0, SETTINGS) for switch, name, _, _ in found]
    evidence += _checks(diagnosis)
    proposal = replace(
        SWITCH_OFF.at(None, how),
        title=f"switch {text} off",
        factor=factor,
        most=gain(scenario, spared(scenario, own_s(scenario))),
        treatments=(Treatment("debug", {"drop": dropped}),),
    )
    if dropped not in DROPPED:
        proposal = replace(proposal, apply="manual", treatments=())
    return Finding(ID, "model.compute" if dropped == "anomaly" else "host.python", evidence, [proposal])


def _found(
    diagnosis: Diagnosis, scenario: Scenario, known: ScriptSettings
) -> list[tuple[str, str, Factor, str]]:
    """(what, metric, speedup without it, how to switch it off) for each switch that is on."""
    live = "leave the profiler's block after a few steps, or give it a schedule"
    trace = "run without coverage or a debugger; sys.settrace(None)"
    every = (
        (known.anomaly or "anomaly" in known.noticed, "anomaly detection", "anomaly",
         _without_checks(diagnosis, scenario), SWITCH_OFF.fix.snippet),
        ("profiler" in known.noticed, "a profiler of operators", "profiler", PROFILED, live),
        (bool(known.tracer), f"a trace function ({known.tracer})", "tracer", TRACED, trace),
        (bool(known.profiler), f"a profile function ({known.profiler})", "tracer", TRACED, trace),
        (known.development_mode, "Python's development mode", "development_mode", TRACED,
         "python train.py                              # without -X dev and PYTHONDEVMODE"),
    )  # fmt: skip
    return [(text, name, factor, how) for on, text, name, factor, how in every if on]


def _without_checks(diagnosis: Diagnosis, scenario: Scenario) -> Factor:
    """The speedup without anomaly detection, from its checks in the profiled step."""
    count = sum(one.calls for one in operators(diagnosis, lambda name: name == "any"))
    if not count:
        return GUESSED
    checks = share_of(diagnosis, lambda name: name in CHECKS) * own_s(scenario)
    seconds = min(checks + TRACEBACK_S * count, 0.9 * own_s(scenario))
    low, likely, high = (spared(scenario, part * seconds) for part in AWAY)
    return spread(scenario, low, likely, high)


def _checks(diagnosis: Diagnosis) -> list[Evidence]:
    checks = operators(diagnosis, lambda name: name == "any")
    count = sum(one.calls for one in checks)
    return [Evidence("searches for NaN in a step", "nan_checks", count, PROFILER)] if count else []


COST = StepCost(0.006, launch=0.002)
CHECKED = [
    Operator("aten::mm", 20.0, 0.002),
    Operator("aten::any", 60.0, 8e-4),
    Operator("aten::ne", 60.0, 8e-4),
]


def _case(known: ScriptSettings | None, table: list[Operator] = CHECKED) -> Diagnosis:
    """A step of 8 ms."""
    facts = Computing(switches=[known] if known else [], anatomies=[anatomy_like(COST)])
    return case_of(COST, facts, table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    off = ScriptSettings(1, anomaly=False)
    return (
        Case("anomaly detection is on", _case(replace(off, anomaly=True)), "fires", "drop-debug"),
        Case("it is on for a part of the step", _case(replace(off, noticed=["anomaly"]), []), "fires",
             "drop-debug"),
        Case("a profiler runs along", _case(replace(off, noticed=["profiler"]), []), "fires", "drop-debug"),
        Case("coverage traces the loop", _case(replace(off, tracer="coverage.tracer"), []), "fires",
             "drop-debug"),
        Case("all is off", _case(off), "silent"),
        Case("nothing was read", _case(None), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "host.python", examine, needs=(cpu_loop,), remedies=(SWITCH_OFF,))
