"""Displaced-jet tagger: deep sets over tracks and calorimeter clusters."""
import argparse
import os
import time

import numpy as np
import torch
import torch.multiprocessing
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, random_split

# "received 0 items of ancdata" / too many open files otherwise
torch.multiprocessing.set_sharing_strategy("file_system")

TRACK = ["trk_pt", "trk_eta", "trk_phi", "trk_charge", "trk_d0", "trk_z0"]
CALO = ["cal_energy", "cal_eta", "cal_phi", "cal_emfrac"]


class Events(Dataset):
    def __init__(self, path):
        with np.load(path) as f:
            self.arrays = {k: f[k] for k in f.files}

    def __len__(self):
        return len(self.arrays["label"])

    def __getitem__(self, i):
        a = self.arrays
        event = {}
        lo, hi = a["trk_off"][i], a["trk_off"][i + 1]
        for k in TRACK:
            event[k] = torch.tensor(a[k][lo:hi])
        lo, hi = a["cal_off"][i], a["cal_off"][i + 1]
        for k in CALO:
            event[k] = torch.tensor(a[k][lo:hi])
        event["met"] = torch.tensor(a["met"][i])
        event["label"] = torch.tensor(a["label"][i])
        return event


def as_list(batch):
    # events have different numbers of tracks, default_collate cannot stack them
    return batch


def pack(events):
    def objects(keys):
        cols = [pad_sequence([e[k] for e in events], batch_first=True) for k in keys]
        x = torch.stack(cols, dim=-1)
        n = torch.tensor([len(e[keys[0]]) for e in events])
        return x, (torch.arange(x.shape[1])[None] < n[:, None]).float()

    trk, trk_mask = objects(TRACK)
    cal, cal_mask = objects(CALO)
    met = torch.stack([e["met"] for e in events])
    y = torch.stack([e["label"] for e in events]).float()
    return trk, trk_mask, cal, cal_mask, met, y


class DeepSet(nn.Module):
    def __init__(self, nin, width):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(nin, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())

    def forward(self, x, mask):
        return (self.phi(x) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Tagger(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.tracks, self.calo = DeepSet(len(TRACK), width), DeepSet(len(CALO), width)
        self.head = nn.Sequential(nn.Linear(2 * width + 2, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, trk, trk_mask, cal, cal_mask, met):
        z = torch.cat([self.tracks(trk, trk_mask), self.calo(cal, cal_mask), met / 20], 1)
        return self.head(z).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=100)
    args = ap.parse_args()
    torch.manual_seed(1)

    full = Events(os.path.join(args.data, "events.npz"))
    n_val = len(full) // 10
    train_set, val_set = random_split(full, [len(full) - n_val, n_val])
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=2, collate_fn=as_list)
    val_loader = DataLoader(val_set, args.batch_size, num_workers=2, collate_fn=as_list)
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss()

    tic = time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        for it, events in enumerate(train_loader):
            *inputs, y = pack(events)
            loss = bce(model(*inputs), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 20 == 0:
                print(f"[{epoch}:{it:4d}] loss {loss.item():.4f}", flush=True)
        model.eval()
        good = 0
        with torch.no_grad():
            for events in val_loader:
                *inputs, y = pack(events)
                good += ((model(*inputs) > 0) == (y > 0.5)).sum().item()
        print(f"epoch {epoch} accuracy {good / n_val:.4f}", flush=True)
    print(f"trained {time.perf_counter() - tic:.2f}")


if __name__ == "__main__":
    main()
