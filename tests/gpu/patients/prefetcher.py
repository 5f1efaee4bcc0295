"""Decoy: large batches are copied on a stream of their own, one step ahead, behind a busy device."""

import contextlib
from collections.abc import Iterator

import torch
from clock import Clock
from stage import Stage, options, products, ready
from torch.utils.data import DataLoader


class Prefetcher:
    """Always one batch ahead, on a stream beside the one that computes."""

    def __init__(self, stage: Stage, loader: DataLoader[torch.Tensor]) -> None:
        self.stage, self.loader = stage, loader
        self.side = torch.cuda.Stream() if stage.cuda else None

    def __iter__(self) -> Iterator[torch.Tensor]:
        batches = map(self.copied, self.loader)
        ahead = next(batches)
        for following in batches:
            yield self.arrived(ahead)
            ahead = following
        yield self.arrived(ahead)

    def copied(self, batch: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self.side) if self.side else contextlib.nullcontext():
            return batch.to(self.stage.device, non_blocking=True)

    def arrived(self, batch: torch.Tensor) -> torch.Tensor:
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
            batch.record_stream(torch.cuda.current_stream())
        return batch


def main() -> None:
    stage = options(__doc__, step_s=0.014)
    rows = stage.size(8192, 32)
    clock = Clock(stage, batch=rows)
    loader = ready(stage, rows, stage.size(4096, 16), dtype=stage.half)
    model = products(stage, 0.014, dtype=stage.half, width=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for x in clock.loop(Prefetcher(stage, loader)):
        optimizer.zero_grad()
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
