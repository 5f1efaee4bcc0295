"""Ranks and sharded models train as without the agent; what they exchange is seen."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from bottleneck_doctor.analyse.ranks import compare
from bottleneck_doctor.model.loops import Loop
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import PRELUDE, Told, plain, profile_of, watched

pytestmark = [pytest.mark.slow, pytest.mark.long]

# Launched by hand: the script starts itself twice, with the variables that torchrun would set.
RANKS = (
    """
import os, subprocess, sys, tempfile
if "RANK" not in os.environ:
    meeting = tempfile.mkdtemp() + "/meeting"
    ranks = [
        subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                         "MEETING": "file://" + meeting})
        for rank in (1, 0)
    ]
    raise SystemExit(max(one.wait(140) for one in ranks))
"""
    + PRELUDE
    + """
import contextlib
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", os.environ["MEETING"], rank=rank, world_size=2)
for name in "Even Late Slow Accumulated Own".split():
    globals()[name] = type(name, (Rows,), {})
shared = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 256), torch.nn.Linear(256, 1)))
losses = []

def train(kind, before=0.0, inside=0.0, every=1):
    handle = shared.module[0].weight.register_hook(lambda gradient: time.sleep(inside)) if inside else None
    solver = torch.optim.SGD(shared.parameters(), lr=0.01)
    for place, batch in enumerate(DataLoader(kind(160 if kind is not Late else 640), batch_size=4)):
        time.sleep(before)
        last = place % every == every - 1
        with contextlib.nullcontext() if last else shared.no_sync():
            loss = shared(batch).square().mean() / 1e6
            loss.backward()
        if last:
            solver.step()
            solver.zero_grad()
        losses.append(loss.item())
    if handle:
        handle.remove()

train(Even, before=0.005)
train(Late, before=0.005 + 0.02 * rank)
train(Slow, inside=0.02)
train(Accumulated, before=0.005, every=4)
for batch in DataLoader(Own(160), batch_size=4):
    optimizer.zero_grad()
    model(batch).square().mean().div(1e6).backward()
    time.sleep(0.02 * rank)
    for weight in model.parameters():
        dist.all_reduce(weight.grad)
        dist.all_reduce(weight.grad, async_op=True).wait()
    optimizer.step()

def train_sharded(model):
    solver = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Rows(160), batch_size=4):
        solver.zero_grad()
        loss = model(batch).square().mean() / 1e6
        loss.backward()
        solver.step()
        losses.append(loss.item())

def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

mesh = init_device_mesh("cpu", (2,))
two = layers()
for place in (0, 2):
    fully_shard(two[place], mesh=mesh)
train_sharded(fully_shard(two, mesh=mesh, reshard_after_forward=False))
train_sharded(FullyShardedDataParallel(layers(), device_id=torch.device("cpu")))
tensor = layers()
parallelize_module(tensor, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
train_sharded(tensor)
dist.barrier()
if rank == 0:
    say(losses=losses, weights=[weight.sum().item() for weight in shared.parameters()])
dist.destroy_process_group()
"""
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("ranks"), RANKS)


@pytest.fixture(scope="module")
def profile(told: Told) -> Profile:
    assert told.status == 0, told.stderr
    return profile_of(told)


def loop(profile: Profile, rank: int, dataset: str) -> Loop:
    """The loop of one rank over that data set."""
    pid = next(one.pid for one in profile.processes if one.rank == rank and one.role == "trainer")
    keys = {one.key for one in profile.loaders if one.dataset == dataset}
    return next(one for one in profile.loops if one.pid == pid and one.loader in keys)


def asleep_s(profile: Profile, rank: int, dataset: str) -> float:
    """Median seconds per step that a rank slept in exchanges, the first steps left out."""
    return median(later(loop(profile, rank, dataset).table.exchange_s))


def later(column: list[float | None]) -> list[float]:
    """Without the first steps; on a crowded machine there may be few that were looked at."""
    return [value or 0.0 for value in column[len(column) // 6 :]]


def test_the_training_is_what_it_would_be(told: Told, tmp_path: Path) -> None:
    sleepless = "time.sleep = lambda seconds: None\nimport contextlib"  # the same numbers, sooner
    alone = plain(tmp_path, RANKS.replace("import contextlib", sleepless))
    assert (told.status, told.stdout) == (alone.status, alone.stdout), told.stderr


def test_both_ranks_say_who_they_are_and_what_they_share(profile: Profile) -> None:
    trainers = [one for one in profile.processes if one.role == "trainer"]
    assert sorted((one.rank, one.world_size) for one in trainers) == [(0, 2), (1, 2)]
    (first, second) = (one for one in profile.ranks.parallel if one.kind == "ddp")
    assert (first.world_size, first.backend) == (second.world_size, second.backend) == (2, "gloo")
    assert first.gradient_bytes == second.gradient_bytes == 4 * (4 * 256 + 256 + 256 + 1)
    assert first.file.endswith("train.py")
    assert first.unused_bytes == 0
    assert sum(first.bucket_bytes or ()) == first.gradient_bytes


def test_a_rank_sleeps_for_a_late_one_and_that_one_does_not(profile: Profile) -> None:
    assert asleep_s(profile, 0, "Late") > asleep_s(profile, 1, "Late")


def test_a_backward_pass_that_sleeps_or_does_not_exchange_is_no_exchange(profile: Profile) -> None:
    for pid in {one.pid for one in profile.ranks.passes}:
        local, shared = sorted(
            (one for one in profile.ranks.passes if one.pid == pid), key=lambda one: one.shared
        )
        assert local.count >= 3
        assert local.exchange_s < shared.exchange_s
    for rank in (0, 1):
        table = loop(profile, rank, "Slow").table
        assert asleep_s(profile, rank, "Slow") < 0.5 * median(later(table.backward_s))


def test_collectives_that_the_loop_calls_are_waited_for_and_have_a_line(profile: Profile) -> None:
    assert asleep_s(profile, 0, "Own") > asleep_s(profile, 1, "Own")
    lines = RANKS.splitlines()
    named = {(one.name, lines[one.location.line - 1].strip()) for one in profile.operations if one.location}
    assert ("all_reduce", "dist.all_reduce(weight.grad)") in named


def test_who_waits_for_whom_is_seen_from_both_sides(profile: Profile) -> None:
    keys = {one.key for one in profile.loaders if one.dataset == "Late"}
    late = [one for one in profile.loops if one.loader in keys]
    pids = {one.pid: rank for rank in (0, 1) for one in [loop(profile, rank, "Late")]}
    balance = compare(replace(profile, loops=late))
    assert balance is not None
    behind = {pids[pid]: seconds for pid, seconds in balance.behind.items()}
    busy = {pids[pid]: seconds for pid, seconds in balance.busy.items()}
    assert behind[0] > behind[1]
    assert busy[1] > busy[0]
    assert balance.slowest > 0.5
    assert balance.missing == 0


def test_each_rank_says_how_its_models_are_sharded(profile: Profile) -> None:
    (one, other) = (one for one in profile.ranks.parallel if one.kind == "fsdp")
    assert (one.world_size, one.backend) == (other.world_size, other.backend) == (2, "gloo")
    weights = 4 * 512 + 512 + 512 * 512 + 512 + 512 + 1
    assert one.gradient_bytes == other.gradient_bytes == 2 * 4 * weights  # of both models
    assert one.arguments["groups"] == "4"
    assert one.arguments["resharded"] == "3"  # all but the root of FSDP2


def test_of_sharded_parameters_an_optimizer_updates_this_ranks_shard(profile: Profile) -> None:
    shared = 4 * 512 + 512 + 512 * 512  # by tensor parallelism
    halves = (shared + 512) // 2
    found = [one.elements for one in profile.computing.optimizers]
    assert {halves, halves + 513, shared // 2 + 512 + 513} <= {*found}, found


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
