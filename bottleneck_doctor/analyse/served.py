"""How much longer each read takes when more are under way at once, as timed on the training's own files."""

from __future__ import annotations

from itertools import pairwise

from ..model.diagnosis import Inputs
from ..model.instruments import Calibration
from ..model.profile import Profile

AGREES = 2.0  # timed sleep per read over the measured one, either way, or the probe read otherwise (ours)
TINY_S = 1e-9

Curve = tuple[tuple[float, float], ...]


def served(profile: Profile, key: str, inputs: Inputs, readers: float) -> Curve:
    """(reads under way at once, seconds of sleep each over what it is with ``readers``), by depth; empty
    where nothing was timed, or where what was timed is not what the training's reads cost."""
    cold = [one for one in profile.calibrations if one.loader == key and one.variant == "cold"]
    count = reads_per_batch(cold[0].subject, inputs) if cold else 0.0
    if not cold or count <= 0 or inputs.storage <= 0:
        return ()
    asleep = _smooth(cold)
    now = at_depth(asleep, readers)
    if not 1 / AGREES <= now / (inputs.storage / count) <= AGREES:
        return ()
    return tuple((depth, seconds / now) for depth, seconds in asleep)


def held(curve: Curve, readers: float) -> Curve:
    """The curve where the run reached a limit that is set: short bursts above it are no more than bursts."""
    return tuple((depth, max(seconds, depth / max(1.0, readers))) for depth, seconds in curve)


def reads_per_batch(subject: str, inputs: Inputs) -> float:
    """How many of what was timed a batch needs from storage; a page fault is a read that no call shows."""
    if subject == "file":
        return inputs.opens or 0.0
    stored, delivered = inputs.storage_bytes, inputs.read_bytes
    cold = min(1.0, stored / delivered) if stored and delivered else 1.0
    return (inputs.reads or 0.0) * cold


def at_depth(curve: Curve, depth: float) -> float:
    """The curve between its points; beyond the last one storage serves no more a second than there."""
    first, last = curve[0], curve[-1]
    if depth <= first[0]:
        return first[1]
    for (low, before), (high, after) in pairwise(curve):
        if depth <= high:
            return before + (after - before) * (depth - low) / (high - low)
    return last[1] * depth / last[0]


def serves_more(curve: Curve, readers: float) -> float:
    """Reads a second with the most that was tried at once, over those with ``readers`` at once."""
    return max(depth / seconds for depth, seconds in curve) * at_depth(curve, readers) / max(1.0, readers)


def _smooth(cold: list[Calibration]) -> Curve:
    """Sleep per read by depth. Who asks for less is served no slower: what is above was somebody else's."""
    rows = sorted(cold, key=lambda one: one.depth)
    asleep = [max(TINY_S, one.seconds - one.cpu_s) for one in rows]
    return tuple((float(one.depth), min(asleep[place:])) for place, one in enumerate(rows))
