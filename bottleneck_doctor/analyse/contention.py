"""The step without what other programs' use of the cores added to it, by the kernel's books of who waited."""

from __future__ import annotations

from ..model.diagnosis import HostLoad, Inputs, Step
from ..model.report import Metric
from .host import strangers
from .intervals import mean_interval

SOURCE = "time between batches less the run queue behind other programs"
CROWDED_OUT = "steps were hardly anything but waiting for cores that other programs used"


def uncontended(steps: list[Step], inputs: Inputs, workers: int, host: HostLoad) -> Metric | None:
    """The step time in seconds as if strangers had left the cores alone; None where that was not measured, no
    value where they left so little that nothing can be said of the job.

    Where workers make the batches, the loop's wait is stretched as their fetches are. What the job would have
    waited for its own threads stays in: only as much of the queue goes as strangers added to its length.
    """
    walls = sum(step.wall * step.steps for step in steps)
    if walls <= 0 or host.foreign_cores is None or all(step.queue is None for step in steps):
        return None
    stretched = inputs.queue / inputs.wall if workers and inputs.wall > 0 else 0.0
    queues = [_queue(step, workers, stretched) for step in steps]
    lost = min(1.0, sum(queue * step.steps for queue, step in zip(queues, steps, strict=True)) / walls)
    theirs = _theirs(lost, host)
    # A row's queue may belong to the step before it: no single row is held to be above zero.
    left = [step.wall - theirs * queue for step, queue in zip(steps, queues, strict=True)]
    value, low, high = mean_interval(left, [float(step.steps) for step in steps])
    if low <= 0:  # whatever is left of such steps says nothing
        return Metric(None, "s", source=CROWDED_OUT)
    return Metric(value, "s", low, high, sum(step.steps for step in steps), SOURCE)


def _queue(step: Step, workers: int, stretched: float) -> float:
    """Seconds of a step in which it wanted to go on and no core was free."""
    queue = step.queue or 0.0
    return max(0.0, queue - step.wait_queue) + step.wait * stretched if workers else queue


def _theirs(lost: float, host: HostLoad) -> float:
    """The strangers' part of the queue: how much of what was wanted beyond the cores they brought."""
    foreign = strangers(host)
    if foreign <= 0:
        return 0.0
    wanted = (host.job_cores or 0.0) / max(1.0 - lost, 0.05)
    beyond = wanted + foreign - host.cores
    return min(1.0, foreign / beyond) if beyond > 0 else 1.0
