"""Sick: large products in plain float32, the default, while tensor cores idle. Cure: TF32."""

import torch
from clock import Clock
from stage import not_here, options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.014)
    if stage.cuda and torch.cuda.get_device_capability(stage.device)[0] < 8:
        not_here("TF32 needs compute capability 8.0")
    if stage.cured:
        torch.set_float32_matmul_precision("high")
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(2048, 16), dtype=torch.float32)
    model = products(stage, 0.014, dtype=torch.float32, rows=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
