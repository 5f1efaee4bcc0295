"""Finds which of the driver's readings are of the device that a process of the run uses."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.device_uuid import bare_uuid
from ..model.sample import Sample


def find_place(samples: Iterable[Sample], uuid: str, index: int) -> int | None:
    """The N of the series ``gpuN_…`` that speak of a device; None where NVML was not shown it.

    ``uuid`` is torch's, "" where it knows none; ``index`` is the process's own number for the device. Numbers
    alone are believed only without identifiers: launchers give each rank a CUDA_VISIBLE_DEVICES of its own,
    scripts set it, and CUDA counts unlike GPUs by speed.
    """
    static = [one.values for one in samples if one.sensor == "gpu_static"]
    known = {name: str(value) for values in static for name, value in values.items()}
    wanted = bare_uuid(uuid)
    places = [int(name[3:-5]) for name in known if name.endswith("_uuid") and name[3:-5].isdigit()]
    if not wanted or not places:
        return index if f"gpu{index}_name" in known else None
    for kind in ("uuid", "whole_uuid"):  # of a slice, torch may say its own identifier or that of its GPU
        found = [place for place in places if bare_uuid(known.get(f"gpu{place}_{kind}", "")) == wanted]
        if len(found) == 1:
            return found[0]
    return None
