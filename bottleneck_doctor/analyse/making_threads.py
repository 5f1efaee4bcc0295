"""On how many cores a loop makes its own batches: torch's operators in a data set use the model's threads."""

from __future__ import annotations

from ..model.diagnosis import Inputs, Step
from ..model.loops import Loader
from ..model.profile import Profile
from . import code
from .hot_lines import hot_lines

TORCHS = frozenset({"torch", "F", "functional", "nn"})  # as scripts name its modules


def making_threads(profile: Profile, loader: Loader | None, steps: list[Step], inputs: Inputs) -> float:
    """CPU of all threads over that of the loop's own, where the hottest line of the making is torch's.

    1 elsewhere: there the ratio only says that OpenMP's threads keep a core while they wait for work."""
    if not _is_torchs(profile, loader):
        return 1.0
    if inputs.cpu > 0 and inputs.other_cpu > 0:
        return 1 + inputs.other_cpu / inputs.cpu
    own = sum(((step.cpu or 0.0) + (step.wait_cpu or 0.0)) * step.steps for step in steps)
    whole = sum((step.process_cpu or 0.0) * step.steps for step in steps)
    return max(1.0, whole / own) if own > 0 else 1.0


def _is_torchs(profile: Profile, loader: Loader | None) -> bool:
    """Whether the hottest line of it is inside of torch, or calls it: compiled functions have no frame."""
    lines = hot_lines(profile, loader, next(iter(profile.outside), None))
    if lines.hottest is None or lines.library:
        return lines.library == "torch"
    source = code.source_at(profile.sources, lines.hottest.location)
    statement = code.statement_at(source, lines.hottest.location.line) if source is not None else None
    return statement is not None and bool(code.names_read(statement) & TORCHS)
