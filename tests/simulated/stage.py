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
from tests.simulated.tensors import PLACE, place_on
from tests.simulated.truth import Batch, Truth

PRODUCT = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel__5x_cublas"
TENSORS = 60
UPDATE = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedSgdMathFunctor<float>>"


class Layers(torch.nn.Module):
    """A third of the kernels forward, the others backward; each pass of a ``graph`` is one launch."""

    def __init__(self, device: Device, kernels: int, kernel_s: float) -> None:
        super().__init__()
        self.device, self.kernels, self.kernel_s = device, kernels, kernel_s
        self.graph = False
        self.weight = torch.nn.Parameter(torch.ones((), device=PLACE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss."""
        forward = self.kernels // 3
        self._launch(forward)
        loss = (self.weight * x).sum()
        if loss.requires_grad:
            loss.register_hook(lambda grad: self._launch(self.kernels - forward))
        return loss

    def _launch(self, kernels: int) -> None:
        if self.graph:
            self.device.launch_graph(PRODUCT, kernels, self.kernel_s)
            return
        for _ in range(kernels):
            self.device.launch(PRODUCT, self.kernel_s)


class Stepping(torch.optim.SGD):
    """An optimizer whose step launches one kernel."""

    def __init__(self, model: Layers) -> None:
        super().__init__(model.parameters(), lr=1e-3)
        self.device = model.device

    def step(self, closure: Any = None) -> Any:
        """Update, on the device too."""
        loss = super().step(closure)
        self.device.launch(UPDATE, 2e-5)
        return loss


class Wide(Layers):
    """The same with many small tensors."""

    def __init__(self, device: Device, kernels: int, kernel_s: float) -> None:
        super().__init__(device, kernels, kernel_s)
        self.others = torch.nn.ParameterList(torch.ones(64, device=PLACE) for _ in range(TENSORS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss."""
        return super().forward(x) + torch.cat(list(self.others)).sum()


def one_by_one(model: Layers, foreach: bool) -> torch.optim.SGD:
    """An optimizer of torch's own that launches kernels for each tensor, or a few for all."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=foreach)

    def launch(*_: Any) -> None:
        for _ in range(4 if foreach else 3 * TENSORS):
            model.device.launch(UPDATE, 3e-6)

    optimizer.register_step_post_hook(launch)
    return optimizer


class Stage:
    """One simulated training: its options, its device, and the truth about it."""

    def __init__(self, steps: int, **device: Any) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("training")
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
        place_on(self.device)
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


def train_on(model: Layers, optimizer: torch.optim.SGD, x: torch.Tensor) -> torch.Tensor:
    """Forward, backward, update."""
    optimizer.zero_grad()
    loss: torch.Tensor = model(x)
    loss.backward()
    optimizer.step()
    return loss


def burn(cpu_s: float) -> None:
    """Use this much CPU time of the calling thread: a stand-in for work of the host."""
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass
