"""Sick: a recurrent network sees 8 sequences at a time, word after word. Cure: 32 at a time."""

import torch
from clock import Clock
from stage import options, ready

WORDS, WIDTH, HIDDEN = 192, 256, 512


class Reader(torch.nn.Module):
    """The recurrent network; its output, without its state."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = torch.nn.LSTM(width, hidden, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)[0]
        return out


def main() -> None:
    stage = options(__doc__, step_s=0.012)
    batch = 32 if stage.cured else 8
    clock = Clock(stage, batch=batch)
    loader = ready(stage, batch, stage.size(WORDS, 4), stage.size(WIDTH, 16), dtype=torch.float32)
    model = Reader(stage.size(WIDTH, 16), stage.size(HIDDEN, 16)).to(stage.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
