"""Starts a patient's training on two ranks of this machine, as torch.multiprocessing.spawn does it."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from ledger import Ledger
from props import Options
from torch import distributed, multiprocessing

RANKS = 2
Train = Callable[[int, Options, Ledger], None]


def on_two_ranks(train: Train, given: Options, threads: int | None = 1) -> None:
    """Run ``train(rank, options, ledger)`` in two processes that can reach each other; rank 0's ledger writes
    the truth."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_rank, (train, given, Path(folder) / "meeting", threads), nprocs=RANKS)


def _rank(rank: int, train: Train, given: Options, meeting: Path, threads: int | None) -> None:
    torch.manual_seed(0)
    if threads is not None:
        torch.set_num_threads(threads)
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=RANKS)
    if rank:
        given = replace(given, truth=None)
    train(rank, given, Ledger(given.steps, given.truth))
    distributed.destroy_process_group()
