"""Tells which of the GPUs that the driver reads is the one that a rank computes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model.sample import Sample
from .rows import Diary


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
    return uuid.lower().removeprefix("gpu-").replace("-", "")


def read_drivers(samples: Iterable[Sample], diaries: list[Diary]) -> Drivers:
    """From what the driver says once, at the start."""
    said = (sample.values for sample in samples if sample.sensor == "gpu_static")
    names = {name: str(value) for values in said for name, value in values.items() if name.endswith("_uuid")}
    numbers = {name[3:-5]: plain(uuid) for name, uuid in names.items() if name.startswith("gpu")}
    ranks = [diary for diary in diaries if diary.first("device")]
    return Drivers({uuid: int(one) for one, uuid in numbers.items() if one.isdigit()}, len(ranks) > 1)
