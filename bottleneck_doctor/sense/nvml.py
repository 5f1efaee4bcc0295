"""Loads NVML and asks it call by call: a call that a driver lacks costs its own value only."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from ..model.profile import Gap

NO_NVML = "install the NVIDIA driver, and pass it into the container (`--gpus all`)"


def load_nvml() -> Any | Gap:
    """The initialised NVML binding, or why there is none. Imported here: most machines have no GPU."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        return Gap(
            "gpu counters", f"the NVML binding cannot be imported: {error}", "pip install nvidia-ml-py"
        )
    try:
        nvml.nvmlInit()
    except Exception as error:  # the binding's own errors and, without a driver, others
        return Gap("gpu counters", f"NVML does not start: {error}", NO_NVML)
    return nvml


def gpu_expected() -> bool:
    """Whether the NVIDIA driver left its devices here: without them nothing is missed."""
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/dxg"))


class Nvml:
    """Asks the binding and remembers, once each, the calls that were refused."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.gaps: dict[str, Gap] = {}

    def ask(self, name: str, *arguments: Any, expected: bool = False) -> Any:
        """The call's answer, else None; and a gap, unless silence is ``expected`` of some GPUs."""
        try:
            call: Callable[..., Any] | None = getattr(self.binding, name, None)
            if call is None:
                raise LookupError("this NVML binding does not know the call")
            return call(*arguments)
        except Exception as error:  # the binding's errors, and ctypes' for a symbol the driver lacks
            if not expected:
                what = f"gpu counter {name.removeprefix('nvmlDeviceGet')}"
                self.gaps.setdefault(name, Gap(what, str(error), "update the NVIDIA driver"))
            return None

    def has(self, name: str) -> bool:
        """Whether the binding knows the call; the driver may still not."""
        return hasattr(self.binding, name)


def text_of(value: object) -> str:
    """Old bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
