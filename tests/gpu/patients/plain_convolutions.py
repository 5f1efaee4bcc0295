"""Sick: convolutions in float32, channels first, without autotuning: torch's defaults. Cure: autocast."""

import torch
from clock import Clock
from speed import IMAGES
from stage import options, ready


def main() -> None:
    stage = options(__doc__, step_s=0.016)
    images, channels, height, width = IMAGES if stage.cuda else (2, 4, 8, 8)
    clock = Clock(stage, batch=images)
    loader = ready(stage, images, 3, height, width, dtype=torch.float32)
    depth = max(1, round(0.012 / stage.speed.convolution_s)) if stage.cuda else 1
    layers: list[torch.nn.Module] = [torch.nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(depth):
        layers += [torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).to(stage.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        with torch.autocast(stage.device.type, stage.half, enabled=stage.cured):
            out = model(x.to(stage.device, non_blocking=True))
        loss = out.float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
