"""The one quiet line that ``bdoc run`` keeps on a terminal while the training goes on."""

from __future__ import annotations

from . import words


def progress_line(
    steps: int,
    step_s: float | None,
    wait_share: float | None,
    elapsed_s: float,
    width: int,
    encoding: str = "utf-8",
) -> str:
    """At most ``width - 1`` columns, so that no terminal wraps it; what matters least goes first."""
    parts = ["bdoc", words.counted(steps, "step")]
    if not steps:
        parts = ["bdoc", "waiting for the first step"]
    if step_s is not None:
        parts.append(f"{words.seconds(step_s)} each")
    if wait_share is not None:
        parts.append(f"{words.percent(wait_share)} waiting for data")
    parts.append(words.seconds(elapsed_s))
    while len(parts) > 1 and len(" · ".join(parts)) > width - 1:
        parts.pop(0 if parts[0] == "bdoc" else -1)
    return words.fit(" · ".join(parts), encoding)[: max(0, width - 1)]
