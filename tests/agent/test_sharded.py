"""Sharded models (FSDP2, FSDP1, tensor parallel) train as without us; what modules exchange is seen."""

from __future__ import annotations

from collections import Counter

import pytest

from bottleneck_doctor.model.profile import Profile
from tests.agent.test_ranks import RANKS
from tests.agent.watching import PRELUDE, Told, plain, profile_of, watched

pytestmark = [pytest.mark.slow, pytest.mark.long]

LAUNCH = RANKS.partition(PRELUDE)[0]
SCRIPT = (
    LAUNCH
    + PRELUDE
    + """
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", os.environ["MEETING"], rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
losses = []

def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

def train(model):
    solver = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Rows(160), batch_size=4):
        solver.zero_grad()
        loss = model(batch).square().mean() / 1e6
        loss.backward()
        solver.step()
        losses.append(loss.item())

two = layers()
for place in (0, 2):
    fully_shard(two[place], mesh=mesh)
train(fully_shard(two, mesh=mesh, reshard_after_forward=False))
train(FullyShardedDataParallel(layers(), device_id=torch.device("cpu")))
tensor = layers()
parallelize_module(tensor, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
train(tensor)
dist.barrier()
if rank == 0:
    say(losses=losses)
dist.destroy_process_group()
"""
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("sharded"), SCRIPT)


@pytest.fixture(scope="module")
def profile(told: Told) -> Profile:
    assert told.status == 0, told.stderr
    return profile_of(told)


def test_the_trainings_are_what_they_would_be(told: Told, tmp_path_factory: pytest.TempPathFactory) -> None:
    alone = plain(tmp_path_factory.mktemp("alone"), SCRIPT)
    assert (told.status, told.stdout) == (alone.status, alone.stdout), told.stderr


def test_each_rank_says_how_its_models_are_sharded(profile: Profile) -> None:
    assert [(one.kind, one.world_size, one.backend) for one in profile.ranks.parallel] == [
        ("fsdp", 2, "gloo")
    ] * 2
    (one, other) = profile.ranks.parallel
    weights = 4 * 512 + 512 + 512 * 512 + 512 + 512 + 1
    assert one.gradient_bytes == other.gradient_bytes == 2 * 4 * weights  # of both models
    assert one.arguments["groups"] == "4"
    assert one.arguments["resharded"] == "3"  # all but the root of FSDP2


def test_what_is_exchanged_is_known_by_kind_and_module(profile: Profile) -> None:
    calls: Counter[tuple[str, str]] = Counter()
    for one in profile.operations:
        if one.kind == "exchange":
            calls[one.name, one.module] += one.count
    gathered = {module for name, module in calls if name.startswith("all_gather")}
    reduced = {module for name, module in calls if name.startswith("reduce_scatter")}
    assert {"0", "2"} <= gathered
    assert {"0", "2"} <= reduced
    assert any(name == "wait" for name, _ in calls), "tensor parallel exchanges are waited for"
