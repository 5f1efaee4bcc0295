"""Accelerators of which NVML knows nothing, and what is left to be known of them."""

from __future__ import annotations

import sys
from pathlib import Path

from .reading import read_text

DRIVER_ONLY = "NVML speaks of NVIDIA devices only: of the {vendor} it knows no utilisation, power or clocks"
CLOCK = "; the device's own clock is read through torch"
INTEL = "0x8086"


def unknown_to_nvml(root: Path = Path("/"), platform: str = sys.platform) -> dict[str, str]:
    """Why the driver's numbers are missing, by what is there and computes in trainings."""
    if platform == "darwin":
        return {"Apple GPU": DRIVER_ONLY.format(vendor="Apple GPU")}
    if (root / "dev/kfd").exists():  # the compute driver's door; a container has it only when it was given
        return {"AMD GPU": DRIVER_ONLY.format(vendor="AMD GPU") + CLOCK}
    return {}


def has_intel_graphics(root: Path = Path("/")) -> bool:
    """Whether there is any Intel GPU. Most are mere displays, so that a training misses nothing."""
    vendors = (root / "sys/class/drm").glob("card*/device/vendor")
    return any((read_text(file) or "").strip() == INTEL for file in vendors)
