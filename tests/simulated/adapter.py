"""Shows the simulated device to the agent as an accelerator, where a script runs under bdoc."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from tests.simulated.device import Device
from tests.simulated.tensors import PLACE
from tests.simulated.trace import traced

AGENT = "_bdoc_agent."  # under which name the agent runs in a user's process


class Simulated:
    """What agent/accelerator.py asks of torch's events, asked of the simulated device. Its tensors are
    torch's meta tensors; in the books it is of CUDA's kind, since that is how it behaves."""

    kind = PLACE

    def __init__(self, device: Device) -> None:
        self.device = device

    def ready(self) -> bool:
        """Graphs are not captured here."""
        return True

    def mark(self) -> int:
        """An instant on the current stream."""
        return self.device.mark()

    def passed(self, mark: int) -> bool:
        """Whether it lies behind."""
        return self.device.passed(mark)

    def between_ns(self, first: int, last: int) -> int:
        """Between two instants that lie behind; a real device would refuse others."""
        assert self.device.passed(first), "asked before the device was there"
        assert self.device.passed(last), "asked before the device was there"
        return last - first

    def release(self, marks: list[int]) -> None:
        """Instants need no pool."""

    def stream(self) -> int:
        """The current stream's number."""
        return self.device.stream.number

    def describe(self) -> dict[str, Any]:
        """It is no real device, and says so."""
        return {
            "kind": "cuda",
            "index": 0,
            "name": "simulated device",
            "uuid": "",
            "capability": [9, 0],
            "memory_bytes": 80 << 30,
            "multiprocessors": 132,
            "hip": None,
        }

    def memory(self) -> tuple[int, int, int, int]:
        """Retries, requests to the driver, bytes at the peak, bytes reserved."""
        return self.device.retries, self.device.requests, 8 << 30, 10 << 30

    def tracer(self) -> Any:
        """Torch's own tracer of the host, which the simulated device completes; None beside another one."""
        if torch.autograd._profiler_enabled():
            return None
        return traced(importlib.import_module(AGENT + "trace_window"), self.device)("simulated")


class Untimed(Simulated):
    """A device whose events cannot be timed."""

    def mark(self) -> int:
        """Refused."""
        raise RuntimeError("simulated: events of this device have no time")


def install(device: Device, timed: bool = True) -> None:
    """Have the agent in this process read the simulated device's clock, and trace it."""
    clock = sys.modules.get(AGENT + "device_clock")
    if clock is not None:
        clock.adopt(Simulated(device) if timed else Untimed(device))
