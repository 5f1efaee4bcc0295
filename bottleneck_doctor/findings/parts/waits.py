"""How the loop waits for data, and which part of making a batch holds it up."""

from __future__ import annotations

from ...analyse.shares import MOST
from ...model.diagnosis import Diagnosis, Inputs
from ...model.report import Evidence

HOOK = "hook on the loader's next"
BOOKS = "thread CPU clock, schedstat"
WAIT_SHARE = 0.05  # of the step [TensorBoard plugin of the PyTorch profiler]
PAYS = 1.05  # step time over the step time without the cause [contract: what limits anything]
LOCK_SHARE = 0.2  # of the waits, from which workers are taken to wait for each other (chosen)
LOOKS_AT_LEAST = 5  # samples of sleeping threads, or kinds of wait are not separated [analyse/inputs.py]


def data_wait_evidence(diagnosis: Diagnosis) -> Evidence:
    """The report's metric of the data wait, as evidence."""
    known = diagnosis.metrics["data_wait_fraction"]
    text = "share of the step that the loop waits for data"
    return Evidence(text, "data_wait_fraction", known.value, known.source)


def wait_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """How long the loop waits, and what a batch's time is spent on."""
    inputs = diagnosis.inputs
    parts = (
        ("CPU time to make a batch", "fetch_cpu_s", inputs.cpu, BOOKS),
        ("time per batch waiting for a core", "fetch_queue_s", inputs.queue, "schedstat"),
        ("time per batch asleep in reads from storage", "fetch_storage_s", inputs.storage, "wait channels"),
        ("time per batch waiting for the network", "fetch_network_s", inputs.network, "wait channels"),
        ("time per batch asleep on something else", "fetch_wait_s", inputs.wait, "wait channels"),
    )
    whole = max(inputs.wall, 1e-12)
    return [data_wait_evidence(diagnosis), *(Evidence(*one) for one in parts if one[2] > 0.05 * whole)]


def starved(diagnosis: Diagnosis, cause: str, seconds: float) -> bool:
    """Whether removing ``cause`` gains 5 % and it is the verdict's cause, or takes most of a batch's cost
    (``seconds`` of it) while the loop waits for data or for cores that workers use."""
    pays = diagnosis.causes.get(cause, 1.0) >= PAYS
    most = seconds >= MOST * making_s(diagnosis.inputs)
    return pays and (diagnosis.verdict.cause == cause or (held_up(diagnosis) and most))


def making_s(inputs: Inputs) -> float:
    """Seconds to make a batch, without waits for a core."""
    return max(inputs.cpu + inputs.storage + inputs.network + inputs.wait, 1e-12)


def held_up(diagnosis: Diagnosis) -> bool:
    """Whether the loop waits for data, or for cores that making batches uses."""
    return waits(diagnosis) or diagnosis.verdict.cause in ("input.preprocess", "input.oversubscribed")


def waits(diagnosis: Diagnosis) -> bool:
    """Whether the loop waits for data for at least 5 % of the step."""
    return diagnosis.wait_s >= WAIT_SHARE * diagnosis.step_s


def dearest(diagnosis: Diagnosis, causes: tuple[str, ...]) -> str:
    """Which of these causes would gain most if it were removed; the first where nothing is known."""
    return max(causes, key=lambda cause: diagnosis.causes.get(cause, 0.0))


def lock_share(diagnosis: Diagnosis) -> float:
    """The share of the workers' waits that is spent on locks, which may serialise them."""
    workers = diagnosis.loader.num_workers if diagnosis.loader is not None else 0
    waited = diagnosis.inputs.wait
    return diagnosis.inputs.waits.get("lock", 0.0) / waited if workers > 1 and waited > 0 else 0.0


def takes_turns(diagnosis: Diagnosis) -> bool:
    """Whether workers wait for each other, so that more workers gain nothing."""
    return lock_share(diagnosis) >= LOCK_SHARE
