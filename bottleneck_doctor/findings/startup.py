"""Time before the first batch."""

from __future__ import annotations

from ..analyse.whole_run import HEAVY
from ..model.diagnosis import Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Startup
from .parts.entry import finding, given
from .parts.facts import place_of
from .parts.pricing import NOTHING
from .parts.shares import MOST

# startup-dominated
SECONDS = 2.0  # or it is too short to matter (chosen)
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
    fix=Fix("import where it is used", "def plot(history): import matplotlib.pyplot as plt; ..."),
    factor=NOTHING,
)


def seen_start(diagnosis: Diagnosis) -> str | None:
    """Needs the times of the training process's start, torch import and first batch."""
    if _start(diagnosis) is None:
        return "the start of the training process: it imported torch unseen, or got no batch"
    return None


def _start(diagnosis: Diagnosis) -> Startup | None:
    loop = diagnosis.loop
    return next((one for one in diagnosis.profile.startups if loop and one.pid == loop.pid), None)


@finding("host.python", KEEP_INDEX, IMPORT_LATER, needs=(seen_start,))
def startup_dominated(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the script's own preparations are a fifth of the run."""
    run, start = diagnosis.profile.run, given(_start(diagnosis))
    own = start.before_torch_s + max(0.0, start.before_loader_s - start.torch_late_s)
    if own < SECONDS or own < HEAVY * run.duration_s:
        return None
    if run.stopped_by is not None:
        return "how long the training would have taken: it was cut short"
    known = (
        ("share of the run before the first loader, without importing torch", "startup_share",
         own / run.duration_s),
        ("time until torch was imported", "before_torch_s", start.before_torch_s),
        ("time to import torch, lazy imports included", "torch_import_s", start.torch_s + start.torch_late_s),
        ("time from importing torch to the first loader", "before_loader_s", start.before_loader_s),
        ("time in imports other than torch", "imports_s", start.imports_s),
        ("time from the first loader to the first batch", "first_batch_s", start.first_batch_s),
        ("time of the run without these preparations", "without_s", max(0.0, run.duration_s - own)),
    )  # fmt: skip
    evidence = [Evidence(*one, CLOCKS) for one in known]
    # what is not imports is work of the script's own: most often, finding the data
    imports, place = min(own, start.imports_s), place_of(diagnosis)
    proposals = [KEEP_INDEX.at(place)] if own - imports >= MOST * own else []
    proposals += [IMPORT_LATER] if imports >= MOST * own else []
    return Finding("startup-dominated", "host.python", evidence, proposals, place)
