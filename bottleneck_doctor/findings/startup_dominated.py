"""A large part of the run was over before the first batch: not torch, but the script's own preparations.

## What it means
Between the interpreter's start and the first batch the script imports modules, lists files, reads labels,
builds the model. In a short run, or one that is started often, that is what takes the time.

## Why it costs
While it goes on nothing is learned. The steady step does not show it: the cost is in the run's length, and is
paid again at each start, each rank, each trial of a search.

## How it is measured
Instants: Python runs, torch begins to be imported, torch is complete, the first loader is built, the first
batch is there; in a loop without a loader its first backward pass begins. Imports are told from other work by
the searches for modules, which follow each other closely.

## Thresholds
More than 20 % of the run and more than 2 s (ours), torch's own import apart, in a run that was not cut short.

## When this advice is wrong
A run of a few steps to try something out is mostly start. Downloads and conversions that happen only the
first time are gone at the next start.

## Prediction
None for the step, which stays what it is: the remedies' factor is 1. What a start without these stretches
would save of this run is in the evidence.

## References
`python -X importtime`; os.scandir in the Python library.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, BatchCost, Diagnosis, Finding, Proposal, StepCost
from ..model.report import Evidence, Fix
from ..model.run import Startup
from .parts.advice import NOTHING, place_of
from .parts.entry import Case, Entry, given, patient

ID = "startup-dominated"
SHARE = 0.2  # of the run (ours; catalogue F62 has a tenth, which torch's own import takes of a minute)
SECONDS = 2.0  # or nobody notices (ours)
PART = 0.5  # of the preparations, from which one of them is what to cure (ours)
CLOCKS = "import and loader hooks"

SCAN_ONCE = """\
if cached.exists(): files = pickle.loads(cached.read_bytes())
else: files = scan(root); cached.write_bytes(pickle.dumps(files))     # once; delete it when data changes"""
KEEP_INDEX = Proposal(
    id="cache-index",
    title="keep the list of files and labels instead of making it at every start",
    fix=Fix("save what the scan found", SCAN_ONCE),
    factor=NOTHING,
    risk="delete the saved list when the data changes",
)
IMPORT_LATER = Proposal(
    id="lazy-imports",
    title="import what only some runs need where they need it",
    fix=Fix(
        "move imports into the functions that use them",
        "def plot(history): import matplotlib.pyplot as plt; ...     # where it is used, not at the top",
    ),
    factor=NOTHING,
)


def seen_start(diagnosis: Diagnosis) -> str | None:
    """When the training process began, imported torch, and got its first batch."""
    if _start(diagnosis) is None:
        return "the start of the training process: it imported torch unseen, or got no batch"
    return None


def _start(diagnosis: Diagnosis) -> Startup | None:
    loop = diagnosis.loop
    return next((one for one in diagnosis.profile.startups if loop and one.pid == loop.pid), None)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the script's own preparations are a fifth of the run."""
    run, start = diagnosis.profile.run, given(_start(diagnosis))
    own = start.before_torch_s + max(0.0, start.before_loader_s - start.torch_late_s)
    if own < SECONDS or own < SHARE * run.duration_s:
        return None
    if run.stopped_by is not None:
        return Abstention(ID, "how long the training would have taken: it was cut short")
    known = (
        ("share of the run that went before the first batch, torch apart", "startup_share",
         own / run.duration_s),
        ("time until torch was imported", "before_torch_s", start.before_torch_s),
        ("time to import torch, now and later", "torch_import_s", start.torch_s + start.torch_late_s),
        ("time from there to the first loader", "before_loader_s", start.before_loader_s),
        ("of these two, time in imports", "imports_s", start.imports_s),
        ("time from there to the first batch", "first_batch_s", start.first_batch_s),
        ("the run with instant preparations would have taken", "without_s", max(0.0, run.duration_s - own)),
    )  # fmt: skip
    evidence = [Evidence(*one, CLOCKS) for one in known]
    # what is not imports is work of the script's own: most often, finding the data
    imports, place = min(own, start.imports_s), place_of(diagnosis)
    proposals = [KEEP_INDEX.at(place)] if own - imports >= PART * own else []
    proposals += [IMPORT_LATER] if imports >= PART * own else []
    return Finding(ID, "host.python", evidence, proposals, place)


def _case(start: Startup | None, stopped_by: str | None = None) -> Diagnosis:
    """A run of one minute."""
    base = patient(BatchCost(1e-4), StepCost(0.01))
    run = replace(base.profile.run, duration_s=60.0, stopped_by=stopped_by)
    return replace(base, profile=replace(base.profile, run=run, startups=[start] if start else []))


SCAN = Startup(1, 0.1, 0.2, 3.0, 30.0, 0.1, 1.0)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("half of the run looks for files", _case(SCAN), "fires"),
        Case("half of the run imports", _case(replace(SCAN, imports_s=28.0)), "fires"),
        Case("torch alone is slow", _case(Startup(1, 0.1, 0.2, 30.0, 1.0, 0.1, 0.5)), "silent"),
        Case("torch brings in the rest later", _case(replace(SCAN, torch_late_s=29.5)), "silent"),
        Case("one second", _case(replace(SCAN, before_loader_s=1.0)), "silent"),
        Case("stopped by --max-steps", _case(SCAN, "--max-steps"), "abstains"),
        Case("the start was not seen", _case(None), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine, needs=(seen_start,), remedies=(KEEP_INDEX, IMPORT_LATER))
