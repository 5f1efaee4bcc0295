"""The same training by Ray Train, a worker on each node; "ray-data": from Ray Data, with a stopwatch."""

import json
import os
import sys
import time
from typing import Any

import ray
import torch
from ray.train import RunConfig, ScalingConfig, get_context, get_dataset_shard
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.cluster.train import train

ROWS = 3200
WARM_UP = 20  # steps


def on_each(told: dict[str, str]) -> None:
    """What each worker does."""
    rank, ranks = get_context().get_world_rank(), get_context().get_world_size()
    if told["late"] == "ray-data":
        waits(told["folder"], rank)
    else:
        train(rank, ranks, told["late"])


def slowly(rows: dict[str, Any]) -> dict[str, Any]:
    """What Ray Data does with each block: 4 ms for each row."""
    time.sleep(0.004 * len(rows["id"]))
    return {"x": torch.randn(len(rows["id"]), 64).numpy(), "y": rows["id"] % 10}


def waits(folder: str, rank: int) -> None:
    """Train on a shard; write down the share of the loop, less its first steps, that its line waited."""
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    waited, begun, before = 0.0, time.perf_counter(), time.perf_counter()
    for step, batch in enumerate(get_dataset_shard("train").iter_torch_batches(batch_size=8)):
        waited += time.perf_counter() - before
        if step == WARM_UP:
            waited, begun = 0.0, time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
        optimizer.step()
        before = time.perf_counter()
    share = waited / (time.perf_counter() - begun)
    with open(os.path.join(folder, f"stopwatch.{rank}.json"), "w") as file:
        json.dump({"share": share}, file)


def main() -> None:
    """Join the cluster and train there."""
    address, late = sys.argv[1:]
    ray.init(address=address, log_to_driver=False)
    blocks = ray.data.range(ROWS, override_num_blocks=ROWS // 32) if late == "ray-data" else None
    TorchTrainer(
        on_each,
        train_loop_config={"late": late, "folder": os.getcwd()},
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
        run_config=RunConfig(storage_path=os.getcwd()),
        datasets={"train": blocks.map_batches(slowly)} if blocks is not None else None,
    ).fit()


if __name__ == "__main__":
    main()
