"""Tells which of the GPUs that the driver reads is the one that a rank computes on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..model.device import DeviceFacts
from ..model.profile import Gap, Process
from ..model.sample import Sample
from .rows import Diary

KIND = re.compile(r"^(?:(?:gpu|mig)-)+")
DOUBT = "which gpu is which"  # what sense calls it, who knows numbers only
HIDDEN = Gap(
    DOUBT,
    "CUDA_VISIBLE_DEVICES hides the training's GPU from bdoc: its utilisation, power and clocks are unknown",
    "start bdoc with the CUDA_VISIBLE_DEVICES of the training",
)
SERIES = re.compile(r"gpu(\d+)_(whole_)?uuid")


@dataclass(frozen=True)
class Drivers:
    """Which of the driver's series, ``gpu0_`` and on, is which device."""

    by_uuid: dict[str, int]
    several_ranks: bool

    def find(self, kind: str, uuid: str, index: int) -> int | None:
        """Its number there; by torch's index where no name is known, unless each rank counts for itself."""
        if kind != "cuda":
            return None
        if plain(uuid) in self.by_uuid:
            return self.by_uuid[plain(uuid)]
        known = bool(uuid and self.by_uuid) or self.several_ranks
        return None if known else index


def plain(uuid: str) -> str:
    """A device's name without what NVML puts before it and torch does not."""
    return KIND.sub("", uuid.lower()).replace("-", "")


def read_drivers(samples: Iterable[Sample], diaries: list[Diary]) -> Drivers:
    """From what the driver says once, at the start. A slice (MIG) goes by its own name and, where it is the
    only one of its GPU, by the GPU's as well: torch may say either."""
    said = [pair for sample in samples if sample.sensor == "gpu_static" for pair in sample.values.items()]
    found = [(SERIES.fullmatch(name), plain(str(uuid))) for name, uuid in said]
    named = [(match[2] is not None, uuid, int(match[1])) for match, uuid in found if match is not None]
    times = Counter(uuid for _, uuid, _ in named)
    of_wholes = {uuid: number for whole, uuid, number in named if whole and times[uuid] == 1}
    own = {uuid: number for whole, uuid, number in named if not whole}
    ranks = [diary for diary in diaries if diary.first("device")]
    return Drivers({**of_wholes, **own}, len(ranks) > 1)


def settle(
    gaps: list[Gap], drivers: Drivers, devices: list[DeviceFacts], processes: list[Process]
) -> list[Gap]:
    """The gaps without the doubt about numbers, where names have settled it or nobody uses a GPU; and with
    one about a GPU that the driver was not asked about."""
    used = any(process.device == "cuda" for process in processes)
    named = bool(devices) and all(plain(one.uuid) in drivers.by_uuid for one in devices)
    hidden = bool(drivers.by_uuid) and any(one.uuid and one.driver is None for one in devices)
    kept = [gap for gap in gaps if gap.what != DOUBT or (used and not named and not hidden)]
    return [*kept, HIDDEN] if hidden else kept
