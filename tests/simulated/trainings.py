"""``python -m tests.simulated.trainings NAME``: trainings on the simulated device."""

from __future__ import annotations

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.simulated.device import Stream
from tests.simulated.stage import Stage, Wide, burn, one_by_one, train_on

ROWS = 8 * 200
BLOCKS = 8  # of memory that a step needs
PAGEABLE, PINNED = 18_000_000, 1_500_000  # numbers in a batch: 72 MB, and 6
BATCHES = 4  # whose gradients go into one update


class Photos(Dataset[torch.Tensor]):
    """Samples that cost CPU time."""

    def __init__(self, cpu_s: float) -> None:
        self.cpu_s = cpu_s

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(self.cpu_s)
        return torch.full((4,), float(index % 7))


class Remote(Photos):
    """Samples that come 1 ms after they were asked for."""

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((4,), float(index % 7))


def ready(numbers: int = 0, pinned: bool = False) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Batches that cost nothing; of so many ``numbers``, which take no memory, in pinned memory or not."""

    def large(rows: list[tuple[torch.Tensor]]) -> tuple[torch.Tensor]:
        batch = torch.ones(()).expand(numbers)
        return (batch.pin_memory() if pinned else batch,)

    return DataLoader(TensorDataset(torch.ones(ROWS, 4)), batch_size=8, collate_fn=large if numbers else None)


def starved_by_source() -> None:
    """The loop itself waits for each sample, asleep. Cure: two workers."""
    stage = Stage(steps=220)
    workers = 2 if stage.cured else 0
    loader = DataLoader(Remote(0.0), batch_size=8, num_workers=workers, persistent_workers=workers > 0)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    for batch in stage.loop(loader):
        train_on(model, optimizer, batch.to("meta"))


def launch_bound() -> None:
    """Many small kernels, which take longer to launch than to run."""
    stage = Stage(steps=300, issue_s=6e-5)
    model, optimizer = stage.model(kernels=150, kernel_s=2e-5)
    for (batch,) in stage.loop(ready()):
        train_on(model, optimizer, batch.to("meta"))


def sync_bound() -> None:
    """Each loss is read, then Python works while the device idles; launches are few, and never the reason."""
    stage = Stage(steps=240)
    model, optimizer = stage.model(kernels=6, kernel_s=0.8e-3)
    for (batch,) in stage.loop(ready()):
        train_on(model, optimizer, batch.to("meta")).item()
        burn(0.008)  # the script's own book-keeping


def transfer_bound() -> None:
    """Large pageable batches are copied in line."""
    stage = Stage(steps=280)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    for (batch,) in stage.loop(ready(PAGEABLE)):
        train_on(model, optimizer, batch.to("meta"))


def allocator_churn() -> None:
    """The allocator's cache is emptied in each step."""
    stage = Stage(steps=400)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    for (batch,) in stage.loop(ready()):
        stage.device.need_memory(BLOCKS)
        train_on(model, optimizer, batch.to("meta"))
        torch.accelerator.empty_cache()


def hidden_wait() -> None:
    """Healthy: the loop waits for batches while the device works off what it was given before."""
    stage = Stage(steps=280)
    model, optimizer = stage.model(kernels=250, kernel_s=5e-5)
    for step, batch in enumerate(stage.loop(DataLoader(Photos(cpu_s=0.0004), batch_size=8))):
        loss = model(batch.to("meta")) / BATCHES
        loss.backward()
        if step % BATCHES == BATCHES - 1:
            optimizer.step()
            optimizer.zero_grad()


def optimizer_loop() -> None:
    """The optimizer goes through its tensors one by one. Cure: all of them in one call."""
    stage = Stage(steps=260, issue_s=3e-5)
    model = Wide(stage.device, kernels=30, kernel_s=2e-5)
    optimizer = one_by_one(model, foreach=stage.cured)
    for (batch,) in stage.loop(ready()):
        train_on(model, optimizer, batch.to("meta"))


def healthy() -> None:
    """A captured graph keeps the device busy, batches are copied ahead on another stream."""
    stage = Stage(steps=320)
    model, optimizer = stage.model(kernels=250, kernel_s=4e-5)
    model.graph = True
    side = Stream(20)
    for (batch,) in stage.loop(ready(PINNED, pinned=True)):
        with stage.device.on(side):
            x = batch.to("meta", non_blocking=True)
        train_on(model, optimizer, x)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
