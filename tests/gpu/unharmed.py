"""What watching must not do to a GPU training: wait for the device, or make steps longer."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.measure import Ward
from tests.lab.cost import Pair, pair
from tests.lab.run import Failed

EVERY_CALL = Path(__file__).with_name("patients") / "every_call.py"
MOST = 1.01  # of the plain step, at steps of 5 ms


@dataclass(frozen=True)
class Waits:
    """Calls that wait for the device in the same steps, by name: alone, and under bdoc."""

    alone: dict[str, int]
    watched: dict[str, int]

    @property
    def same(self) -> bool:
        """Whether bdoc added none and took none away. None at all means that nothing was counted."""
        return bool(self.alone) and self.alone == self.watched


def waits(ward: Ward) -> Waits:
    """Count them by the script's own profiler; bdoc's is left out, as there is only one at a time."""
    alone = ward.traced(EVERY_CALL)
    quiet = ["--no-profiler", "--no-py-spy"]
    said, watched, _ = ward.watched(EVERY_CALL, bdoc_options=quiet, tell="--trace")
    if "every step is looked at closely" not in said:
        raise Failed("bdoc was not in the training: nothing was compared")
    return Waits(alone["synchronising"], watched["synchronising"])


def cost(step_ms: float, repeats: int, seconds: float) -> list[Pair]:
    """Plain and watched runs in turn, with all that bdoc does by default."""
    return [pair(step_ms, seconds, []) for _ in range(repeats)]


def longer(pairs: Sequence[Pair]) -> float:
    """The median step under bdoc over the one before it without; the middle one of the pairs."""
    return statistics.median(one.watched.step_s / one.plain.step_s for one in pairs)


def longer_mean(pairs: Sequence[Pair]) -> float:
    """The same of mean steps, which instrument windows are part of."""
    return statistics.median(one.watched.mean_step_s / one.plain.mean_step_s for one in pairs)


def waits_line(found: Waits) -> str:
    """In words."""
    if not found.alone:
        return "calls that wait for the device: none were seen, so nothing was compared"
    alone = ", ".join(f"{name} {count}" for name, count in found.alone.items())
    if found.same:
        return f"calls that wait for the device: the same with and without bdoc ({alone})"
    watched = ", ".join(f"{name} {count}" for name, count in found.watched.items()) or "none"
    return f"calls that wait for the device: {alone}; WITH BDOC: {watched}"


def cost_line(step_ms: float, pairs: Sequence[Pair]) -> str:
    """In words."""
    added = statistics.median(one.watched.step_s - one.plain.step_s for one in pairs)
    return (
        f"steps of {step_ms:g} ms under bdoc: median ×{longer(pairs):.4f} ({added * 1e6:+.0f} µs), "
        f"mean ×{longer_mean(pairs):.4f}, {len(pairs)} pairs"
    )
