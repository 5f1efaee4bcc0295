"""Loads NVML, and makes each call of a driver's library by itself: one that it lacks loses only its value."""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from ..model.run import Gap

WHAT = "gpu counters"
NO_NVML = "install the NVIDIA driver, and pass it into the container (`--gpus all`)"
# "order of 1-3 second" to initialise a GPU without a persistent driver [NVIDIA, Driver Persistence, Overview]
SLOW_CALL_S = 1.0  # a call that takes as long is not made again; NVML's slowest averages over 20 ms
STARTS_WITHIN_S = 3.0
Values = dict[str, float | str]

FUNCTION_NOT_FOUND = 13
PREFIX = re.compile("^nvml(DeviceGet)?|^amdsmi_get_(gpu_)?")

# What to do about NVML's return codes, by value: the names differ between bindings.
REMEDIES = {
    3: "",  # not supported by this device: no remedy
    4: "run bdoc as the user who may ask the driver, or ask who runs the machine",
    9: "load the driver: sudo modprobe nvidia",
    FUNCTION_NOT_FOUND: "update the NVIDIA driver",
    15: "see `nvidia-smi` and `dmesg` for a lost GPU",
    18: "driver and library differ after an update: reboot, or reload the driver's modules",
}


def load_nvml() -> Library | Gap:
    """The initialised NVML, or why there is none. Imported here: most machines have no GPU."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        return Gap(WHAT, f"the NVML binding cannot be imported: {error}", "pip install nvidia-ml-py")
    try:
        nvml.nvmlInit()
    except Exception as error:  # the binding's own errors and, without a driver, others
        return Gap(WHAT, f"NVML does not start: {error}", _remedy(error, NO_NVML))
    return Library(nvml, "NVML", "nvidia-smi", "update the NVIDIA driver")


class Library:
    """Asks a vendor's binding and remembers the calls that were refused; ``remedy`` is for most of them."""

    def __init__(self, binding: Any, name: str, tool: str, remedy: str) -> None:
        self.binding, self.name, self._remedy = binding, name, remedy
        self.look = f"see `{tool}` and `dmesg`"
        self._refused: dict[str, tuple[str, str]] = {}
        self._slow: set[str] = set()

    def ask(self, name: str, *arguments: Any, expected: bool = False, older: str = "") -> Any:
        """The call's answer, or None and a gap, unless ``expected`` says that some GPUs do not answer.
        ``older``: the call's name in earlier drivers."""
        try:
            return self._call(name, *arguments)
        except Exception as error:  # the binding's errors, and ctypes' for a symbol the driver lacks
            if older and _is_unknown(error):
                return self.ask(older, *arguments, expected=expected)
            if not expected:
                why = " ".join(str(error).split())
                self._refused.setdefault(name, (why, _remedy(error, self._remedy)))
            return None

    def gaps(self) -> list[Gap]:
        """One for each reason why calls were refused: it names them."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for name, reason in list(self._refused.items()):  # a copy: another thread may add to it
            reasons.setdefault(reason, []).append(PREFIX.sub("", name))
        return [Gap(WHAT, f"{why}: {', '.join(names)}", do) for (why, do), names in reasons.items()]

    def _call(self, name: str, *arguments: Any) -> Any:
        call: Callable[..., Any] | None = getattr(self.binding, name, None)
        if call is None:
            raise LookupError(f"this binding of {self.name} does not know the call")
        if name in self._slow:
            raise TimeoutError("it answered too slowly to be asked again")
        began_s = time.monotonic()
        try:
            return call(*arguments)
        finally:
            if (took_s := time.monotonic() - began_s) > SLOW_CALL_S:
                self._slow.add(name)
                why = f"took {took_s:.1f} s to answer, and is not asked again"
                self._refused[name] = why, self.look


def _is_unknown(error: Exception) -> bool:
    """Whether binding or driver lacks the call; of some calls the binding says so in an error of its own."""
    codes = [getattr(one, "value", 0) for one in (error, error.__context__)]
    return isinstance(error, LookupError) or FUNCTION_NOT_FOUND in codes


def _remedy(error: Exception, otherwise: str) -> str:
    return REMEDIES.get(getattr(error, "value", 0), otherwise)


def text_of(value: object) -> str:
    """Old bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def present(found: Mapping[str, Any]) -> Values:
    """What was answered. Old bindings return bytes."""
    texts = {name: text_of(value) for name, value in found.items() if isinstance(value, bytes)}
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))} | texts


MOST_GPUS = 64


@dataclass(frozen=True)
class Gpu:
    """A visible GPU: its library's index and handle. ``part`` is the handle of a MIG slice, else None."""

    index: int
    handle: Any
    name: str
    part: Any = None


def visible_gpus(library: Library) -> tuple[list[Gpu], list[Gap]]:
    """The GPUs in the order of CUDA_VISIBLE_DEVICES; like CUDA, stops at the first entry that names none.

    CUDA numbers unlike GPUs by speed and NVML by slot: without an order in common all are returned, and a
    device is found by its UUID.
    """
    every, gaps = _all_gpus(nvml := library.binding)
    words = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    in_order = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in every}) < 2
    if "CUDA_VISIBLE_DEVICES" not in os.environ or (words[0].isdigit() and not in_order):
        return every, gaps
    chosen = [_find(nvml, word, every) for word in words[:MOST_GPUS]]
    return [gpu for gpu in takewhile(lambda gpu: gpu is not None, chosen) if gpu is not None], gaps


def _all_gpus(nvml: Any) -> tuple[list[Gpu], list[Gap]]:
    gpus: list[Gpu] = []
    try:
        for index in range(min(nvml.nvmlDeviceGetCount(), MOST_GPUS)):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            part = _first_slice(nvml, handle)
            gpus.append(Gpu(index, handle, text_of(nvml.nvmlDeviceGetName(part or handle)), part))
    except Exception as error:  # a lost GPU may hide those behind it
        return gpus, [Gap(WHAT, f"NVML fails at GPU {len(gpus)}: {error}", "see `nvidia-smi` and `dmesg`")]
    return gpus, []


def _first_slice(nvml: Any, handle: Any) -> Any:
    """A GPU that is cut up runs nothing itself: where its number is meant, CUDA takes its first slice. A
    container that was given one slice sees just that one."""
    with suppress(Exception):  # most GPUs cannot be cut up, and old drivers do not know the question
        if not nvml.nvmlDeviceGetMigMode(handle)[0]:
            return None
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with suppress(Exception):  # places need not be filled from the first on
                return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
    return None


def _find(nvml: Any, word: str, every: list[Gpu]) -> Gpu | None:
    """The GPU or slice that an entry of CUDA_VISIBLE_DEVICES names."""
    fitting: list[Gpu] = []
    with suppress(Exception):  # an identifier that this driver does not know names nothing
        if word.isdigit():
            fitting = [gpu for gpu in every if gpu.index == int(word)]
        elif word.startswith("GPU-"):  # CUDA accepts any unique beginning of the identifier
            fitting = [gpu for gpu in every if text_of(nvml.nvmlDeviceGetUUID(gpu.handle)).startswith(word)]
        elif word.startswith("MIG-"):
            part = nvml.nvmlDeviceGetHandleByUUID(word)
            index = nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part))
            name = text_of(nvml.nvmlDeviceGetName(part))
            fitting = [replace(gpu, name=name, part=part) for gpu in every if gpu.index == index]
    return fitting[0] if len(fitting) == 1 else None
