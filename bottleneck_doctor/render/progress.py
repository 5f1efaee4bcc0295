"""The status line that ``bdoc run`` shows on a terminal while the training runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from ..model.proof import CEILING, Attempt, Gain
from . import words


def progress_line(
    steps: int,
    step_s: float | None,
    wait_share: float | None,
    elapsed_s: float,
    width: int,
    encoding: str = "utf-8",
) -> str:
    """At most ``width - 1`` columns, so that no terminal wraps it; the least important parts go first."""
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


LONGEST_BAR = 20
LEAST_BAR = 5


def proving_line(
    doing: str,
    share: float,
    left_s: float | None,
    known: Sequence[tuple[str, Gain]] = (),
    width: int = 80,
    encoding: str = "utf-8",
) -> str:
    """``doing`` is an arm's id or what else goes on, ``share`` of all is done, ``left_s`` are left at most,
    ``known`` says what each arm gains so far. At most ``width - 1`` columns: no terminal wraps it."""
    from .proof import gained, name_of  # draws tables, which `bdoc run` does not need while it waits

    most = max(0, width - 1)
    what = name_of(doing)
    left = f"{words.seconds(float(round(left_s)))} left" if left_s is not None else ""
    gains = [f"{words.plain(name)} {gained(gain)[0]}" for name, gain in known if name != CEILING]
    parts = [part for part in (left, what, *gains) if part]
    while len(parts) > 1 and cell_len(" · ".join(parts)) + LEAST_BAR + 6 > most:
        parts.pop()
    text = " · ".join(parts)
    room = min(LONGEST_BAR, most - cell_len(text) - 6)
    bar = f"bdoc {words.bar(share, room)} " if room >= LEAST_BAR else ""
    return words.fit(bar + text, encoding)[:most]


def attempt_line(attempt: Attempt) -> str:
    """One finished run, for a log: which arm, how long a step took or what became of it."""
    from .proof import name_of, verdict_of

    if attempt.step_s is not None and attempt.outcome == "measured":
        text = f"{words.seconds(attempt.step_s)} a step over {words.counted(attempt.steps, 'step')}"
    else:
        text = verdict_of(attempt.outcome)
        text += f": {words.short(words.plain(attempt.why), 200)}" if attempt.why else ""
    return f"{name_of(attempt.arm)}: {text} (run of {words.seconds(attempt.run_s)})"
