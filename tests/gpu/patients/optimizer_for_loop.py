"""Sick: AdamW steps through 200 small tensors in a for-loop. Cure: the fused one."""

import torch
from clock import Clock
from stage import options, ready

TENSORS, WIDTH = 200, 64


class Experts(torch.nn.Module):
    """Many small layers, computed as one product."""

    def __init__(self) -> None:
        super().__init__()
        weights = [torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5) for _ in range(TENSORS)]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.stack(list(self.weights))


def main() -> None:
    stage = options(__doc__, step_s=0.014)
    clock = Clock(stage, batch=WIDTH)
    loader = ready(stage, WIDTH, WIDTH, dtype=torch.float32)
    model = Experts().to(stage.device)
    how = {"fused": True} if stage.cured else {"foreach": False, "fused": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
