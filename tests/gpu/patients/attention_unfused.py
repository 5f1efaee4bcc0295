"""Sick: attention writes its scores to memory and reads them again. Cure: the fused operator."""

import torch
from clock import Clock
from speed import ATTENTION, written_out
from stage import Stage, options, ready
from torch.nn import functional


class Attention(torch.nn.Module):
    """Attention without projections, so that it alone takes the time."""

    def __init__(self, fused: bool, heads: int, width: int) -> None:
        super().__init__()
        self.fused, self.heads = fused, heads
        self.scale = torch.nn.Parameter(torch.ones(heads, 1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = x * self.scale
        return functional.scaled_dot_product_attention(q, q, q) if self.fused else written_out(q, q, q)


def depth(stage: Stage) -> int:
    """Layers that take about 12 ms together; no more than memory holds easily."""
    return min(4, max(1, round(0.012 / stage.speed.attention_s))) if stage.cuda else 1


def main() -> None:
    stage = options(__doc__, step_s=0.016)
    sentences, heads, words, width = ATTENTION if stage.cuda else (2, 2, 8, 4)
    clock = Clock(stage, batch=sentences)
    loader = ready(stage, sentences, heads, words, width, dtype=stage.half)
    layers = [Attention(stage.cured, heads, width) for _ in range(depth(stage))]
    model = torch.nn.Sequential(*layers).to(stage.device, stage.half)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
