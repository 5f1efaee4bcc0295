"""Treatments that throw a switch: one real training with all of them, which sets the opposite itself."""

import resource
from pathlib import Path
from typing import Any

from bottleneck_doctor.agent.trial.settings import descriptors
from tests.agent.trying import treated
from tests.agent.watching import PRELUDE

SCRIPT = (
    PRELUDE
    + """
import gc, warnings
from torch.utils.checkpoint import checkpoint
torch.set_num_threads(1)
torch.set_float32_matmul_precision("highest")
torch.backends.cudnn.benchmark = False
torch.autograd.set_detect_anomaly(True)
sys.setprofile(lambda *_: None)

class Tiny(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.tensor(torch.get_num_threads())

model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4, 1))
weight = model[0].weight
layouts = []
model[0].register_forward_pre_hook(lambda _, images: layouts.append(images[0].stride(1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
plain = torch.optim.Rprop([torch.nn.Parameter(torch.ones(2))])
calls = [0]
def block(x):
    calls[0] += 1
    return model(x)
for threads in DataLoader(Tiny(), batch_size=2, num_workers=1):
    optimizer.zero_grad()
    checkpoint(block, torch.randn(2, 3, 3, 3), use_reentrant=False).sum().backward()
    optimizer.step()
torch.cuda.empty_cache()
say(
    threads=torch.get_num_threads(), worker_threads=threads.tolist(),
    precision=torch.get_float32_matmul_precision(), benchmark=torch.backends.cudnn.benchmark,
    anomaly=torch.is_anomaly_enabled(), profiled=sys.getprofile() is not None, frozen=gc.get_freeze_count(),
    fused=[group["fused"] for group in optimizer.param_groups], rprop=plain.param_groups[0]["foreach"],
    laid=weight.stride(1), same=weight is model[0].weight, layouts=layouts, calls=calls[0],
)
"""
)
ORDERS: dict[str, dict[str, Any]] = {
    "threads": {"count": 2},
    "collector": {},
    "precision": {"matmul": "high"},
    "cudnn": {"benchmark": True},
    "optimizer": {"way": "fused"},
    "layout": {},
    "recompute": {},
    "empty_cache": {},
    "debug": {"drop": "anomaly"},
}


def test_each_switch_is_as_ordered_and_said_to_be(tmp_path: Path) -> None:
    seen, words = treated(tmp_path, SCRIPT, ORDERS.items())
    assert {name: "" in told for name, told in words.items()} == dict.fromkeys(ORDERS, True)
    assert "Rprop takes no argument fused" in words["optimizer"]
    assert seen.pop("frozen") > 1000, "what lives is out of the collector's sight"
    layouts = seen.pop("layouts")
    assert (layouts[0], set(layouts[1:])) == (9, {1}), "of images; the first call was under way"
    assert seen == {
        "threads": 2,
        "worker_threads": [1, 1],
        "precision": "high",
        "benchmark": True,
        "anomaly": False,
        "profiled": True,  # another order takes profile functions off
        "fused": [True],
        "rprop": None,  # it cannot be fused, and is left alone
        "laid": 1,  # channels last, in the same weight
        "same": True,
        "calls": 4,  # of the checkpointed block: one a step
    }


def test_the_soft_limit_becomes_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    said: list[str] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        descriptors({}, lambda why="": said.append(why))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard
        descriptors({}, lambda why="": said.append(why))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert said[0] == ""
    assert said[1].endswith("can only be raised by an administrator")
