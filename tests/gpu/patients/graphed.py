"""Decoy: the whole step is one CUDA graph, replayed with one launch; the device is busy all the time."""

import torch
from clock import Clock
from stage import options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.010)
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(4096, 16), dtype=stage.half)
    model = products(stage, 0.010, dtype=stage.half, width=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    static = torch.randn(stage.size(256, 8), stage.size(4096, 16)).to(stage.device, stage.half)
    loss = torch.zeros((), device=stage.device)

    def step() -> None:
        optimizer.zero_grad()
        found = model(static).float().square().mean()
        found.backward()
        optimizer.step()
        loss.copy_(found.detach())

    replay = step
    if stage.cuda:
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        replay = graph.replay
    for x in clock.loop(loader):
        static.copy_(x, non_blocking=True)
        replay()
    clock.close(loss)


if __name__ == "__main__":
    main()
