"""Treatments of shared models: two real ranks, whose gradients must stay what they would be."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bottleneck_doctor.agent.trial import model
from tests.agent.trying import treated

SCRIPT = """
import json, os, tempfile
import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

def rank(number, meeting):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", "file://" + meeting, rank=number, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    alone = torch.nn.Linear(4, 1)
    alone.load_state_dict(model.module.state_dict())
    pairs = [(one, torch.optim.SGD(one.parameters(), lr=0.01)) for one in (model, alone)]
    exchanged, gradients = [], []
    for place in range(11):
        torch.manual_seed(place)
        batches = torch.randn(2, 8, 4)
        (model(batches[number]).square().mean() / 3).backward()
        exchanged.append(model.require_forward_param_sync)
        (alone(batches.flatten(0, 1)).square().mean() / 3).backward()
        if place % 3 == 2 or place == 10:  # the last step comes early
            gradients.append([one.weight.grad.tolist() for one in (model.module, alone)])
            for one, optimizer in pairs:
                optimizer.step()
                optimizer.zero_grad()
    weights = [one.weight.tolist() for one in (model.module, alone)]
    if number == 0:
        print(json.dumps({"exchanged": exchanged, "gradients": gradients, "weights": weights,
                          "views": model.gradient_as_bucket_view}))
    distributed.destroy_process_group()

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank, (folder + "/meeting",), nprocs=2)
"""


@pytest.mark.slow
def test_gradients_are_exchanged_once_a_step_and_are_those_of_all_batches(tmp_path: Path) -> None:
    orders = [("no_sync", {"passes": 3}), ("ddp", {"arguments": {"gradient_as_bucket_view": True}})]
    seen, words = treated(tmp_path, SCRIPT, orders)
    assert {name: set(told) for name, told in words.items()} == {"no_sync": {""}, "ddp": {""}}
    assert seen["exchanged"] == [place % 3 == 2 for place in range(11)]
    assert seen["views"] is True
    for shared, alone in seen["gradients"][:3]:
        assert shared[0] == pytest.approx(alone[0], rel=1e-4)
    assert seen["weights"][0][0] == pytest.approx(seen["weights"][1][0], rel=1e-4)


def test_a_hook_of_torchs_own_is_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []

    class Model:
        def __init__(self, module: object, gradient_as_bucket_view: bool = False) -> None:
            self.view = gradient_as_bucket_view

        def register_comm_hook(self, state: object, hook: object) -> None:
            registered.append(hook)

    monkeypatch.setitem(sys.modules, model.COMM_HOOKS, SimpleNamespace(half="the hook"))
    told: list[str] = []
    options = {"hook": "half", "arguments": {"gradient_as_bucket_view": True}}
    table = model.ddp(options, lambda why="": told.append(why))
    table["torch.nn.parallel.distributed"](SimpleNamespace(DistributedDataParallel=Model))
    assert Model("net").view
    assert (registered, told) == (["the hook"], [""])
    monkeypatch.setitem(sys.modules, model.COMM_HOOKS, SimpleNamespace())
    Model("net")
    assert "AttributeError" in told[1]
