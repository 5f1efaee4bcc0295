"""Treatments that throw a switch: one real training with all of them, which sets the opposite itself."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from bottleneck_doctor.agent.trial.settings import descriptors
from tests.agent.trial.trying import tried
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


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[str]]]:
    return treated(tmp_path_factory.mktemp("settings"), SCRIPT, ORDERS)


@pytest.fixture
def seen(outcome: tuple[dict[str, Any], dict[str, list[str]]]) -> dict[str, Any]:
    return outcome[0]


def test_each_says_that_it_was_applied(outcome: tuple[dict[str, Any], dict[str, list[str]]]) -> None:
    assert {name: "" in words for name, words in outcome[1].items()} == dict.fromkeys(ORDERS, True)


def test_the_training_computes_with_so_many_threads_and_its_workers_with_one(seen: dict[str, Any]) -> None:
    assert seen["threads"] == 2
    assert set(seen["worker_threads"]) == {1}


def test_precision_and_choice_of_algorithms_are_as_ordered(seen: dict[str, Any]) -> None:
    assert (seen["precision"], seen["benchmark"]) == ("high", True)


def test_what_the_script_asks_of_autograd_is_not_switched_on(seen: dict[str, Any]) -> None:
    assert seen["anomaly"] is False
    assert seen["profiled"] is True  # another order's


def test_what_lives_is_out_of_the_collectors_sight(seen: dict[str, Any]) -> None:
    assert seen["frozen"] > 1000


def test_an_optimizer_is_fused_and_one_that_cannot_be_is_left_alone(
    seen: dict[str, Any], outcome: tuple[dict[str, Any], dict[str, list[str]]]
) -> None:
    assert seen["fused"] == [True]
    assert seen["rprop"] is None
    assert "Rprop takes no argument fused" in outcome[1]["optimizer"]


def test_images_and_weights_have_their_channels_last_and_weights_stay_themselves(
    seen: dict[str, Any],
) -> None:
    assert (seen["laid"], seen["same"]) == (1, True)
    assert seen["layouts"][0] == 9  # the first call was under way
    assert set(seen["layouts"][1:]) == {1}


def test_a_checkpointed_block_is_called_once_a_step(seen: dict[str, Any]) -> None:
    assert seen["calls"] == 4


@pytest.mark.slow
def test_torch_shares_by_name() -> None:
    assert tried().said["sharing"] == "file_system"
    assert tried().told("sharing") == {""}


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
