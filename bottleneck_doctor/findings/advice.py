"""What several findings say alike: the loader's call with changed arguments, and how the loop waits."""

from __future__ import annotations

from ..model.diagnosis import Diagnosis
from ..model.profile import Loader
from ..model.report import Evidence

HOOK = "hook on the loader's next"
BOOKS = "thread CPU clock, schedstat"


def loader_call(loader: Loader, **changed: object) -> str:
    """The user's own call with the changed arguments put in."""
    arguments = dict(loader.arguments) | {name: repr(value) for name, value in changed.items()}
    return f"DataLoader(..., {', '.join(f'{name}={value}' for name, value in arguments.items())})"


def wait_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """How long the loop waits, and where the making of a batch spends its time."""
    inputs = diagnosis.inputs
    found = [Evidence("share of the step that the loop waits for data", "data_wait_fraction",
                      diagnosis.wait_s / diagnosis.step_s if diagnosis.step_s else None, HOOK)]  # fmt: skip
    parts = (
        ("CPU time to make a batch", "fetch_cpu_s", inputs.cpu, BOOKS),
        ("time a batch's maker waits for a core", "fetch_queue_s", inputs.queue, "schedstat"),
        ("time a batch's maker sleeps in reads from storage", "fetch_storage_s", inputs.storage, "wait channels"),
        ("time a batch's maker waits for the network", "fetch_network_s", inputs.network, "wait channels"),
        ("time a batch's maker sleeps on something else", "fetch_wait_s", inputs.wait, "wait channels"),
    )
    whole = max(inputs.wall, 1e-12)
    found += [Evidence(text, metric, value, source) for text, metric, value, source in parts if value > 0.05 * whole]
    return found
