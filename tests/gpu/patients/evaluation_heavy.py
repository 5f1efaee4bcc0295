"""Sick: 120 batches are evaluated after every 30 steps, which takes longer than these. Cure: every 150."""

import itertools

import torch
from clock import Clock
from stage import options, products, ready

EVERY = 30
EVALUATED = 120


def main() -> None:
    """Train for a while, and evaluate now and then."""
    stage = options(__doc__, step_s=0.021)
    clock = Clock(stage, batch=256)
    every = 5 * EVERY if stage.cured else EVERY
    shape = stage.size(256, 8), stage.size(2048, 16)
    loader, held_out = ready(stage, *shape, dtype=stage.half), ready(stage, *shape, dtype=stage.half)
    model = products(stage, 0.009, dtype=stage.half)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, x in enumerate(clock.loop(loader), 1):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).float().square().mean()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            with clock.aside(), torch.no_grad():
                model.eval()
                total = torch.zeros((), device=stage.device)
                for seen in itertools.islice(held_out, EVALUATED):
                    total += model(seen.to(stage.device, non_blocking=True)).float().square().mean()
                total.item()
                model.train()
    clock.close(loss)


if __name__ == "__main__":
    main()
