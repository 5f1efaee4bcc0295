"""No patient: a training that makes every kind of call that waits for the device, for counting them."""

import io
import sys

import torch
from clock import Clock
from stage import options, products, ready


def looked_at_closely() -> bool:
    """Make every step one that a watcher looks at closely; whether there is a watcher."""
    # Asked of their dictionaries: some modules of torch claim to have any attribute.
    found = [
        vars(one) for one in list(sys.modules.values()) if "CLOSE_LOOK_SHARE" in getattr(one, "__dict__", {})
    ]
    for watcher in found:
        watcher["CLOSE_LOOK_SHARE"] = watcher["LATER_SHARE"] = 1e9
    return bool(found)


def main() -> None:
    stage = options(__doc__, step_s=0.010)
    print("every step is looked at closely" if looked_at_closely() else "nobody looks")
    clock = Clock(stage)
    loader = ready(stage, stage.size(256, 8), stage.size(2048, 16), dtype=torch.float32, pinned=False)
    model = products(stage, 0.002, dtype=torch.float16).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(stage.device.type)
    kind = torch.float16 if stage.cuda else torch.bfloat16
    for x in clock.loop(loader):
        pinned = x.pin_memory() if stage.cuda else x
        x = x.to(stage.device) + pinned.to(stage.device, non_blocking=True)
        with torch.autocast(stage.device.type, kind):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        loss.item()
        str(x[0, :2])
        x[0].cpu().numpy()
        x[0][x[0] > 0].nonzero()
        torch.save(loss.detach(), io.BytesIO())
        if stage.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    clock.close(loss)


if __name__ == "__main__":
    main()
