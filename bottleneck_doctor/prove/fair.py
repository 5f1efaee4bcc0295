"""The steps that are compared, without what other programs' use of the cores added to them."""

from __future__ import annotations

from ..analyse.contention import uncontended
from ..analyse.evaluated import find_evaluated
from ..analyse.host import measure_host
from ..analyse.inputs import measure_inputs, steady_fetches
from ..analyse.outside import as_loop, judge_gap
from ..analyse.steady import choose_loop, loader_of, steps_of
from ..model.diagnosis import Step
from ..model.profile import Profile
from ..model.proof import ComparedSteps
from ..model.report import Metric


def left_alone(profile: Profile, span: ComparedSteps) -> Metric | None:
    """Seconds per step as if strangers had left the cores alone; None where that was not measured.

    The same measure as the gate's: a run that shared its cores with another job is not slower for it.
    """
    loop, outside = choose_loop(profile)
    loader = loader_of(profile, loop, outside)
    if outside is not None:
        loop = as_loop(profile, outside, judge_gap(profile, outside))
        loop = find_evaluated(profile, loop, None).set_aside(loop)
    every = steps_of(loop.table) if loop is not None else []
    steps = _within(every, span)
    if not steps:
        return None
    workers = loader.num_workers if loader is not None else 0
    table = steady_fetches(profile, loop, loader)
    begin, end = steps[0].t - steps[0].wall, steps[-1].t
    inputs = measure_inputs(profile, table, begin, end, workers)
    return uncontended(steps, inputs, workers, measure_host(profile, begin, end, None))


def _within(steps: list[Step], span: ComparedSteps) -> list[Step]:
    seen, kept = 0, []
    for step in steps:
        if span.begin <= seen and seen + step.steps <= span.end:
            kept.append(step)
        seen += step.steps
    return kept
