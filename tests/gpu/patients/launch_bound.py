"""Sick: a thousand kernels of a few microseconds, launched one by one. Cure: recorded as CUDA graphs."""

import torch
from clock import Clock
from stage import options, ready

DEPTH = 120
WIDTH = 64


def main() -> None:
    stage = options(__doc__, step_s=0.012)
    clock = Clock(stage, batch=WIDTH)
    loader = ready(stage, WIDTH, WIDTH, dtype=torch.float32)
    blocks = [
        (torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH), torch.nn.GELU()) for _ in range(DEPTH)
    ]
    model = torch.nn.Sequential(*(module for block in blocks for module in block)).to(stage.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    if stage.cured and stage.cuda:
        example = torch.randn(WIDTH, WIDTH, device=stage.device)
        model = torch.cuda.make_graphed_callables(model, (example,))
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
