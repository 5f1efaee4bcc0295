"""Finds the GPUs that CUDA_VISIBLE_DEVICES leaves to the job, in the order in which CUDA counts them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model.run import Gap
from .nvml import ANSWERS_WITHIN_S, NO_ANSWER, gpu_expected, load_nvml, text_of, within
from .proc_files import read_text

MOST_GPUS = 64


@dataclass(frozen=True)
class Gpu:
    """A visible GPU: NVML index and handle. ``part`` is the handle of a MIG slice, None for a whole GPU."""

    index: int
    handle: Any
    name: str
    part: Any = None


def list_gpu_names() -> tuple[list[str], list[Gap]]:
    """Names of the visible GPUs. Without an NVIDIA device nothing is missed: an empty list and no gap."""
    found = within(ANSWERS_WITHIN_S, find_gpus)
    if found is None:
        return [], [NO_ANSWER]
    if isinstance(found, Gap):
        return [], missed(found)
    return [gpu.name for gpu in found[1]], found[2]


def find_gpus(environment: Mapping[str, str] | None = None) -> tuple[Any, list[Gpu], list[Gap]] | Gap:
    """The binding, the visible GPUs and what is not sure of them; or why there is no NVML."""
    nvml = load_nvml()
    return nvml if isinstance(nvml, Gap) else (nvml, *visible_gpus(nvml, environment))


def missed(gap: Gap, root: Path = Path("/")) -> list[Gap]:
    """What to say of an NVML that does not start: nothing, where there is no accelerator."""
    if gpu_expected(root):
        return [gap]
    return [Gap(gap.what, why) for why in unknown_to_nvml(root).values()]


def visible_gpus(nvml: Any, environment: Mapping[str, str] | None = None) -> tuple[list[Gpu], list[Gap]]:
    """The GPUs in the order of CUDA_VISIBLE_DEVICES; like CUDA, stops at the first entry that names none."""
    environment = os.environ if environment is None else environment
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    every, gaps = _all_gpus(nvml)
    if wanted is not None:
        words = [word.strip() for word in wanted.split(",")]
        chosen = _choose(nvml, words, every)
        numbered = any(word.isdigit() for word in words)
    else:
        chosen, numbered = every, True
    unlike = len({gpu.name for gpu in every}) > 1
    if unlike and numbered and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        why = "CUDA counts unlike GPUs by speed and NVML by slot, so counters may be of another GPU"
        gaps = [*gaps, Gap("which gpu is which", why, "export CUDA_DEVICE_ORDER=PCI_BUS_ID")]
    return chosen, gaps


def _choose(nvml: Any, words: Sequence[str], every: Sequence[Gpu]) -> list[Gpu]:
    chosen: list[Gpu] = []
    for word in words[:MOST_GPUS]:
        gpu = _find(nvml, word, every)
        if gpu is None:
            break
        chosen.append(gpu)
    return chosen


def _all_gpus(nvml: Any) -> tuple[list[Gpu], list[Gap]]:
    gpus: list[Gpu] = []
    try:
        for index in range(min(nvml.nvmlDeviceGetCount(), MOST_GPUS)):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            part = _first_slice(nvml, handle)
            gpus.append(Gpu(index, handle, text_of(nvml.nvmlDeviceGetName(part or handle)), part))
    except Exception as error:  # a lost GPU may hide those behind it
        why = f"NVML fails at GPU {len(gpus)}: {error}"
        return gpus, [Gap("gpu counters", why, "see `nvidia-smi` and `dmesg`")]
    return gpus, []


def _first_slice(nvml: Any, handle: Any) -> Any:
    """A GPU that is cut up runs nothing itself: where its number is meant, CUDA takes its first slice. A
    container that was given one slice sees just that one."""
    try:
        if not nvml.nvmlDeviceGetMigMode(handle)[0]:
            return None
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except Exception:  # places need not be filled from the first on
                continue
    except Exception:  # most GPUs cannot be cut up, and old drivers do not know the question
        return None
    return None


def _find(nvml: Any, word: str, every: Sequence[Gpu]) -> Gpu | None:
    if word.isdigit():
        return next((gpu for gpu in every if gpu.index == int(word)), None)
    try:
        if word.startswith("MIG-"):
            return _find_slice(nvml, word, every)
        if word.startswith("GPU-"):  # CUDA accepts any unique beginning of the identifier
            fitting = [gpu for gpu in every if text_of(nvml.nvmlDeviceGetUUID(gpu.handle)).startswith(word)]
            return fitting[0] if len(fitting) == 1 else None
    except Exception:  # an identifier that this driver does not know names nothing
        return None
    return None


def _find_slice(nvml: Any, word: str, every: Sequence[Gpu]) -> Gpu | None:
    part = nvml.nvmlDeviceGetHandleByUUID(word)
    index = nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part))
    whole = next((gpu for gpu in every if gpu.index == index), None)
    return None if whole is None else Gpu(index, whole.handle, text_of(nvml.nvmlDeviceGetName(part)), part)


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
