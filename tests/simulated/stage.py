"""What the simulated trainings have in common: their options, a model that launches kernels, an optimizer."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from tests.simulated.adapter import install
from tests.simulated.device import Device
from tests.simulated.truth import Batch, Truth

WIDTH = 4


class Layers(torch.nn.Module):
    """A third of the kernels in its forward pass, the others in its backward pass."""

    def __init__(self, device: Device, kernels: int, kernel_s: float) -> None:
        super().__init__()
        self.device, self.kernels, self.kernel_s = device, kernels, kernel_s
        self.inner = torch.nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number for each row."""
        forward = self.kernels // 3
        self._launch(forward)
        y: torch.Tensor = self.inner(x)
        if y.requires_grad:
            y.register_hook(lambda grad: self._launch(self.kernels - forward))
        return y

    def _launch(self, kernels: int) -> None:
        for _ in range(kernels):
            self.device.launch("ampere_sgemm_128x64_tn", self.kernel_s)


class Stepping(torch.optim.SGD):
    """An optimizer whose step launches one kernel."""

    def __init__(self, model: Layers) -> None:
        super().__init__(model.parameters(), lr=1e-3)
        self.device = model.device

    def step(self, closure: Any = None) -> Any:
        """Update, on the device too."""
        loss = super().step(closure)
        self.device.launch("multi_tensor_apply_kernel", 2e-5)
        return loss


class Stage:
    """One simulated training: its options, its device, and the truth about it."""

    def __init__(self, about: str | None, steps: int, **device: Any) -> None:
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("--cured", action="store_true", help="apply the remedy, and nothing else")
        parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default {steps})")
        parser.add_argument("--truth", type=Path, help="write what is true by construction to this file")
        given = parser.parse_args()
        self.cured: bool = given.cured
        self.steps: int = given.steps
        self._file: Path | None = given.truth
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.device = Device(**device)
        self.truth = Truth(self.device)
        install(self.device)

    def model(self, kernels: int, kernel_s: float) -> tuple[Layers, Stepping]:
        """A model that launches so many kernels in each step, and its optimizer."""
        model = Layers(self.device, kernels, kernel_s)
        return model, Stepping(model)

    def loop(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The training loop; at its end the device is waited for and the truth is written."""
        yield from self.truth.loop(batches, self.steps)
        self.device.synchronise()
        self.truth.write(self._file)


def train_on(model: Layers, optimizer: Stepping, x: torch.Tensor) -> torch.Tensor:
    """Forward, backward, update."""
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def burn(cpu_s: float) -> None:
    """Use this much CPU time of the calling thread: a stand-in for work of the host."""
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass
