"""Loads NVML and makes each call by itself: a call that a driver lacks loses only its own value."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model.run import Gap
from .proc_files import read_text

WHAT = "gpu counters"
NO_NVML = "install the NVIDIA driver, and pass it into the container (`--gpus all`)"
ANSWERS_WITHIN_S = 3.0  # to start: without a persistent driver it wakes each device, a second or so (chosen)
SLOW_CALL_S = 1.0  # a call that takes longer is not made again; NVML's slowest averages over 20 ms (chosen)
NO_ANSWER = Gap(WHAT, "NVML does not answer", "see `nvidia-smi` and `dmesg`")

FUNCTION_NOT_FOUND = 13

# What to do about NVML's return codes, by value: the names differ between bindings.
REMEDIES = {
    3: "",  # not supported by this device: no remedy
    4: "run bdoc as the user who may ask the driver, or ask who runs the machine",
    9: "load the driver: sudo modprobe nvidia",
    FUNCTION_NOT_FOUND: "update the NVIDIA driver",
    15: "see `nvidia-smi` and `dmesg` for a lost GPU",
    18: "driver and library differ after an update: reboot, or reload the driver's modules",
}


def load_nvml() -> Any | Gap:
    """The initialised NVML binding, or why there is none. Imported here: most machines have no GPU."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        return Gap(WHAT, f"the NVML binding cannot be imported: {error}", "pip install nvidia-ml-py")
    try:
        nvml.nvmlInit()
    except Exception as error:  # the binding's own errors and, without a driver, others
        return Gap(WHAT, f"NVML does not start: {error}", _remedy(error, NO_NVML))
    return nvml


def within(limit_s: float, work: Callable[[], Any]) -> Any:
    """What ``work`` returns, or None where it fails or does not come back in time; its thread is left."""
    found: list[Any] = []

    def run() -> None:
        with suppress(Exception):
            found.append(work())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    return found[0] if found else None


def gpu_expected(root: Path = Path("/")) -> bool:
    """Whether there are device files of the NVIDIA driver: without them no gap is reported."""
    return any(os.path.exists(root / path) for path in ("dev/nvidiactl", "dev/dxg"))


class Nvml:
    """Asks the binding and remembers the calls that were refused."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self._refused: dict[str, tuple[str, str]] = {}
        self._slow: set[str] = set()

    def ask(self, name: str, *arguments: Any, expected: bool = False, older: str = "") -> Any:
        """The call's answer, else None; and a gap, unless silence is ``expected`` of some GPUs. ``older``:
        what drivers called it before."""
        try:
            return self._call(name, *arguments)
        except Exception as error:  # the binding's errors, and ctypes' for a symbol the driver lacks
            if older and _is_unknown(error):
                return self.ask(older, *arguments, expected=expected)
            if not expected:
                self._refused.setdefault(name, (str(error), _remedy(error, "update the NVIDIA driver")))
            return None

    def gaps(self) -> list[Gap]:
        """One for each reason why calls were refused: it names them."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for name, reason in list(self._refused.items()):  # a copy: another thread may add to it
            reasons.setdefault(reason, []).append(name.removeprefix("nvml").removeprefix("DeviceGet"))
        return [Gap(WHAT, f"{why}: {', '.join(names)}", do) for (why, do), names in reasons.items()]

    def _call(self, name: str, *arguments: Any) -> Any:
        call: Callable[..., Any] | None = getattr(self.binding, name, None)
        if call is None:
            raise LookupError("this NVML binding does not know the call")
        if name in self._slow:
            raise TimeoutError("it answered too slowly to be asked again")
        began_s = time.monotonic()
        try:
            return call(*arguments)
        finally:
            if (took_s := time.monotonic() - began_s) > SLOW_CALL_S:
                self._slow.add(name)
                why = f"took {took_s:.1f} s to answer, and is not asked again"
                self._refused[name] = why, "see `nvidia-smi` and `dmesg`"


def _is_unknown(error: Exception) -> bool:
    """Whether binding or driver lacks the call; of some calls the binding says so in an error of its own."""
    codes = [getattr(one, "value", 0) for one in (error, error.__context__)]
    return isinstance(error, LookupError) or FUNCTION_NOT_FOUND in codes


def _remedy(error: Exception, otherwise: str) -> str:
    return REMEDIES.get(getattr(error, "value", 0), otherwise)


def text_of(value: object) -> str:
    """Old bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


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
    """The gaps where NVML does not start: this one, or without NVIDIA devices those of other accelerators."""
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
