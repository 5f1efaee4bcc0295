"""Shows the simulated device to the agent as an accelerator, where a script runs under bdoc."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import torch

from tests.simulated.device import Device
from tests.simulated.tensors import PLACE
from tests.simulated.torch_api import AGENT, Driver, adopt
from tests.simulated.trace import traced


class Simulated(Driver):
    """The device's streams, by events of torch's kind; in the books it is of CUDA's kind, and no real one."""

    kind = PLACE
    described: ClassVar = {"kind": "cuda", "capability": [9, 0], "memory_bytes": 80 << 30}

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.mark, self.passed = device.mark, device.passed  # type: ignore[method-assign]

    @property
    def stream(self) -> int:  # type: ignore[override]
        """The current stream's number."""
        return self.device.stream.number

    @property
    def books(self) -> tuple[int, int, int, int]:  # type: ignore[override]
        """Retries, requests to the driver, bytes at the peak, bytes reserved."""
        return self.device.retries, self.device.requests, 8 << 30, 10 << 30

    def tracer(self) -> Any:
        """Torch's own tracer of the host, which the simulated device completes; None beside another one."""
        if torch.autograd._profiler_enabled():
            return None
        return traced(importlib.import_module(AGENT + "trace_window"), self.device)(PLACE)


def install(device: Device) -> None:
    """Have the agent in this process read the simulated device's clock, and trace it."""
    adopt(Simulated(device))
