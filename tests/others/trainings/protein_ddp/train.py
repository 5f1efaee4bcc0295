"""Protein solubility, transformer encoder, data parallel over the local processes.

    python train.py --data DIR             starts --nproc ranks on this machine (like torchrun)
"""
import argparse
import os
import socket
import subprocess
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def launch(n):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    procs = []
    for rank in range(n):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        env.setdefault("OMP_NUM_THREADS", "1")
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
        procs.append(subprocess.Popen([sys.executable, os.path.abspath(__file__)] + sys.argv[1:], env=env))
    while any(p.poll() is None for p in procs):
        if any(p.poll() not in (None, 0) for p in procs):
            for p in procs:
                p.terminate()
            break
        time.sleep(0.2)
    return max(abs(p.wait()) for p in procs)


class Chains:
    """Variable-length chains; batches are runs of neighbours so that padding stays small."""

    def __init__(self, path):
        with np.load(path) as f:
            self.residues, self.offsets, self.label = f["residues"], f["offsets"], f["label"]

    def batch(self, idx):
        seqs = [self.residues[self.offsets[i]:self.offsets[i + 1]] for i in idx]
        width = max(len(s) for s in seqs)
        x = np.zeros((len(seqs), width), np.int64)
        for r, s in enumerate(seqs):
            x[r, :len(s)] = s
        return torch.from_numpy(x), torch.from_numpy(self.label[list(idx)]).float()


def split_batches(n, batch_size, rank, world):
    """Training and validation batches of this rank (every eighth batch is held out)."""
    batches = [range(i, i + batch_size) for i in range(0, n - batch_size + 1, batch_size)]
    per_rank = len(batches) // world
    mine = batches[rank * per_rank:(rank + 1) * per_rank]
    return [b for k, b in enumerate(mine) if k % 8 != 7], mine[7::8]


class SolubilityNet(nn.Module):
    def __init__(self, dim=96, layers=2, heads=4):
        super().__init__()
        self.embed = nn.Embedding(21, dim, padding_idx=0)
        self.pos = nn.Conv1d(dim, dim, 9, padding=4, groups=dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 1)

    def forward(self, tokens):
        pad = tokens == 0
        x = self.embed(tokens)
        x = x + self.pos(x.transpose(1, 2)).transpose(1, 2)
        x = self.encoder(x, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.head((x * keep).sum(1) / keep.sum(1)).squeeze(1)


def worker(args):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = Chains(os.path.join(args.data, "chains.npz"))
    train_batches, val_batches = split_batches(len(data.label), args.batch_size, rank, world)
    model = DDP(SolubilityNet())
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    loss_fn = nn.BCEWithLogitsLoss()

    dist.barrier()
    start = time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        order = np.random.default_rng(epoch).permutation(len(train_batches))
        total = 0.0
        for k in order:
            x, y = data.batch(train_batches[k])
            loss = loss_fn(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        stats = torch.zeros(2)
        with torch.no_grad():
            for b in val_batches:
                x, y = data.batch(b)
                stats += torch.tensor([((model.module(x) > 0) == (y > 0.5)).sum().item(), len(y)])
        dist.all_reduce(stats)
        if rank == 0:
            print(f"epoch {epoch} loss {total / len(order):.4f} val acc {stats[0] / stats[1]:.3f}", flush=True)
    dist.barrier()
    seconds = time.perf_counter() - start
    dist.destroy_process_group()
    if rank == 0:
        print(f"trained {seconds:.2f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--nproc", type=int, default=2)
    args = ap.parse_args()
    if "RANK" in os.environ:
        worker(args)
    else:
        sys.exit(launch(args.nproc))
