"""Decoy: values are read back three times a step, and it costs nothing: the kernels are long and few."""

import torch
from clock import Clock
from stage import options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.020)
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(4096, 16), dtype=stage.half)
    model = products(stage, 0.020, dtype=stage.half, width=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    history = []
    for x in clock.loop(loader):
        optimizer.zero_grad()
        out = model(x.to(stage.device, non_blocking=True)).float()
        history.append(out[0].max().item())
        loss = out.square().mean()
        history.append(loss.item())
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    clock.close(loss)


if __name__ == "__main__":
    main()
