"""Explanations of a report's terms: bounds, causes, metrics and messages."""

from __future__ import annotations

import pkgutil
import re

BOUNDS = {
    "cpu": "CPU-bound", "gpu": "GPU-bound", "io": "I/O-bound", "comm": "communication-bound",
    "balanced": "balanced", "latency": "latency-bound", "inconclusive": "inconclusive",
}  # fmt: skip
# By the cause, where an accelerator waits for what no faster CPU, GPU or disk would bring.
WAITING = {
    "host.launch": "launch-bound", "host.sync": "sync-bound", "device.transfer": "transfer-bound",
    "device.memory": "allocator-bound",
}  # fmt: skip

RESOURCES = {"cpu": "CPU", "io": "I/O", "gpu": "GPU", "comm": "communication"}

BASES = {"replay": "by replay", "amdahl": "from the measured part", "bound": "an upper bound"}

SEVERITIES = {"primary": 0, "secondary": 1, "notice": 2}

# Families of findings, by what they are about.
TOPICS = {
    "loader and workers": ("input", "workers"), "making samples": ("sample_code", "decode"),
    "reading data": ("storage",), "training loop": ("host_loop", "saving_logging"),
    "model": ("cpu_compute", "precision"), "GPU": ("device_compute", "device_transfer"),
    "threads and memory": ("threads", "memory"), "several ranks": ("ranks",),
}  # fmt: skip


def _shelves() -> dict[str, dict[str, str]]:
    """The pages of glossary.md by shelf and id."""
    text = (pkgutil.get_data(f"{__package__}", "glossary.md") or b"").decode()
    parts = re.split(r"^# (.+)\n", text, flags=re.MULTILINE)
    pages = [re.split(r"^## (.+)\n", part, flags=re.MULTILINE) for part in parts[2::2]]
    texts = [dict(zip(one[1::2], map(str.strip, one[2::2]), strict=True)) for one in pages]
    return dict(zip(parts[1::2], texts, strict=True))


# How a remedy is applied, what it takes, and ids by other words for them, with "-" for "_" and blank.
BOUND_PAGES, METRICS, MESSAGES, GAPS, APPLY, EFFORTS, ALIASES = _shelves().values()
