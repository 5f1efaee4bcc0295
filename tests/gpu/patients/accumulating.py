"""Decoy: float16 under a gradient scaler, which reads a flag a step; gradients of two batches are summed."""

import torch
from clock import Clock
from stage import options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.012)
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(4096, 16), dtype=torch.float32)
    model = products(stage, 0.012, dtype=torch.float16, width=4096).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(stage.device.type)
    kind = torch.float16 if stage.cuda else torch.bfloat16
    for number, x in enumerate(clock.loop(loader), 1):
        with torch.autocast(stage.device.type, kind):
            out = model(x.to(stage.device, non_blocking=True))
        loss = out.float().square().mean() / 2
        scaler.scale(loss).backward()
        if number % 2 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    clock.close(loss)


if __name__ == "__main__":
    main()
