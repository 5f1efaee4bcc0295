"""Reads AMD's GPUs through amdsmi, ROCm's binding, into the series of gpus.py. Not proven on hardware.

As documented for ROCm 6.0 to 7: what a device lacks is "N/A", or the largest number of its type. Not read:
the PCIe link, how long single processes compute, GPU_DEVICE_ORDINAL.
"""

from __future__ import annotations

import importlib
import os
import re
from functools import partial
from typing import Any

from ..model.run import Gap
from .nvml import MOST_GPUS, WHAT, Gpu, Library, Values, present

INSTALL = "pip install /opt/rocm/share/amd_smi, in bdoc's environment"
UNKNOWN = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)  # [amdsmi.h]
# NVML's names, and what of AMD's violations they stand for, which the library knows from MI300 on.
SLOWED = {"power_cap": ("ppt_pwr",), "hw_thermal": ("prochot_thrm", "socket_thrm", "vr_thrm", "hbm_thrm")}


def load_amdsmi() -> Library | Gap:
    """The initialised amdsmi, or why there is none. Imported here: it loads ROCm's library."""
    try:
        amdsmi = importlib.import_module("amdsmi")
        amdsmi.amdsmi_init()
    except Exception as error:  # without its library the import itself raises what comes
        do = INSTALL if isinstance(error, ImportError) else "see `amd-smi` and `dmesg`"
        why = "of the AMD GPU only its own clock is read, through torch: amdsmi does not start: "
        return Gap(WHAT, why + " ".join(str(error).split()), do)
    return Library(amdsmi, "amdsmi", "amd-smi", "")


def visible_amd(library: Library) -> tuple[list[Gpu], list[Gap]]:
    """The GPUs in HIP's order that ROCR_VISIBLE_DEVICES, and then HIP_VISIBLE_DEVICES or CUDA's, leave; all,
    to be found by serial number, where one holds more than numbers or the order is unknown (ROCm < 6.4)."""
    every: list[Gpu] = []
    for handle in (library.ask("amdsmi_get_processor_handles") or [])[:MOST_GPUS]:
        place = _ask(library, handle, "gpu_enumeration_info", expected=True).get("hip_id")
        name = str(_ask(library, handle, "gpu_asic_info").get("market_name", "N/A"))
        every.append(Gpu(place if isinstance(place, int) else -1, handle, name.replace("N/A", "AMD GPU")))
    chosen = every = sorted(every, key=lambda gpu: gpu.index)
    hip = "HIP_VISIBLE_DEVICES" if os.environ.get("HIP_VISIBLE_DEVICES") else "CUDA_VISIBLE_DEVICES"
    for variable in ("ROCR_VISIBLE_DEVICES", hip):
        if words := os.environ.get(variable, "").replace(" ", ""):
            if any(gpu.index < 0 for gpu in every) or not re.fullmatch(r"\d+(,\d+)*", words):
                return every, []
            chosen = [chosen[int(word)] for word in words.split(",") if int(word) < len(chosen)]
    return chosen, []


class AmdDevice:
    """One visible GPU."""

    def __init__(self, library: Library, gpu: Gpu) -> None:
        self.failures, self.gpu, self._library = 0, gpu, library
        self._ask = partial(_ask, library, gpu.handle)
        self._clock = partial(self._ask, "clock_info", library.binding.AmdSmiClkType.GFX)

    def static(self) -> Values:
        """What does not change while a job runs. A GPU's partitions share its serial number."""
        vram = self._library.binding.AmdSmiMemoryType.VRAM
        return present({
            "uuid": _as_torch(self._ask("gpu_enumeration_info", expected=True).get("hip_uuid")),
            "whole_uuid": _as_torch(self._ask("gpu_asic_info").get("asic_serial")),
            "memory_bytes": _number(self._library.ask("amdsmi_get_gpu_memory_total", self.gpu.handle, vram)),
            "power_default_w": _number(self._ask("power_cap_info").get("default_power_cap"), unit=1e-6),
            "sm_clock_max_mhz": _number(self._clock().get("max_clk")),
        })  # fmt: skip

    def read(self, job: frozenset[int], slow: bool) -> Values:
        """One reading; ``slow``: also of what is asked rarely. Empty where nothing answers."""
        power, clock = self._ask("power_info"), self._clock()
        read: dict[str, Any] = {
            "busy_share": _number(self._ask("gpu_activity").get("gfx_activity"), unit=1 / 100),
            "power_w": _number(power.get("current_socket_power"), power.get("average_socket_power")),
            "sm_clock_mhz": _number(clock.get("clk"), clock.get("cur_clk")),
        }
        if slow and present(read):
            read |= {"power_limit_w": _number(self._ask("power_cap_info").get("power_cap"), unit=1e-6)}
            violated = self._ask("violation_status", expected=True)  # takes 0.1 s: the library reads twice
            for name, parts in SLOWED.items():
                states = [violated.get(f"active_{part}") for part in parts]
                read[f"clocks_{name}"] = max((int(one) for one in states if one in (0, 1)), default=None)
            read |= self._shared(job)
        return present(read)

    def _shared(self, job: frozenset[int]) -> Values:
        """Processes that hold memory there; pids may be of another namespace, as NVML's."""
        found = self._library.ask("amdsmi_get_gpu_process_list", self.gpu.handle)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            return {}
        held = [(one.get("pid"), _number((one.get("memory_usage") or {}).get("vram_mem"))) for one in found]
        foreign = [used for pid, used in held if used and pid not in job]
        ours = sum(1 for pid, used in held if used and pid in job)
        others = {"foreign_processes": len(foreign), "foreign_memory_bytes": sum(foreign)}
        return {"job_processes": ours, **others}


def _ask(library: Library, handle: Any, name: str, *arguments: Any, expected: bool = False) -> dict[str, Any]:
    found = library.ask(f"amdsmi_get_{name}", handle, *arguments, expected=expected)
    return found if isinstance(found, dict) else {}


def _number(*values: Any, unit: float = 1.0) -> float | None:
    return next((one * unit for one in values if type(one) in (int, float) and one not in UNKNOWN), None)


def _as_torch(serial: Any) -> str | None:
    """HIP's identifier is the text of the serial number's 16 hexadecimal digits; torch shows its bytes."""
    digits = re.fullmatch(r"(?:GPU-|0x)?0*([1-9a-f][0-9a-f]{0,15})", str(serial), re.IGNORECASE)
    return digits[1].lower().zfill(16).encode().hex() if digits else None
