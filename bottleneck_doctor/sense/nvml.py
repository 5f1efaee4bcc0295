"""Loads NVML and asks it call by call: a call that a driver lacks costs its own value only."""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..model.run import Gap

WHAT = "gpu counters"
NO_NVML = "install the NVIDIA driver, and pass it into the container (`--gpus all`)"
ANSWERS_WITHIN_S = 3.0  # to start: without a persistent driver it wakes each device, a second or so (ours)
SLOW_CALL_S = 1.0  # a call that takes longer is not made again; NVML's slowest averages over 20 ms (ours)
NO_ANSWER = Gap(WHAT, "NVML does not answer", "see `nvidia-smi` and `dmesg`")

FUNCTION_NOT_FOUND = 13

# What to do about NVML's return codes, by value: the names differ between bindings.
REMEDIES = {
    3: "",  # not supported: nobody can change what this device offers
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
    """Whether the NVIDIA driver left its devices here: without them nothing is missed."""
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
        for name, reason in list(self._refused.items()):  # it may grow meanwhile
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
