#!/usr/bin/env python
"""Star-rating prediction for product reviews (fastText style, word + bigram buckets).

    ./train.py --data DIR --prepare && ./train.py --data DIR
"""
import html
import json
import os
import pickle
import re
import sys
import time
import zlib
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOLDER = sys.argv[sys.argv.index("--data") + 1]
CORPUS = os.path.join(FOLDER, "reviews.jsonl")

cfg = dict(
    reviews=6000,
    steps=int(os.environ.get("STEPS", 450)),
    batch_size=64,
    buckets=30000,
    dim=48,
    workers=int(os.environ.get("LOADER_WORKERS", "0")),
    tokens=os.environ.get("TOKENS", ""),
    padding=os.environ.get("PADDING", "lists"),
    pin=os.environ.get("PIN_MEMORY", "") == "yes",
)

TAG = re.compile(r"<[^>]+>")
URL = re.compile(r"https?://\S+")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[!?]")
SUFFIXES = ("ingly", "edly", "ness", "ment", "ing", "ies", "ed", "ly", "es", "s")


def prepare():
    import random
    rnd = random.Random(8)
    os.makedirs(FOLDER, exist_ok=True)
    syll = ["ba", "con", "der", "fi", "gra", "ho", "in", "jor", "ka", "lim", "mo", "nu", "or", "pel", "qui", "ra", "sto", "ti"]
    vocab = ["".join(rnd.choice(syll) for _ in range(rnd.randint(1, 4))) + rnd.choice(["", "", "s", "ed", "ing", "ly"])
             for _ in range(15000)]
    with open(CORPUS, "w") as f:
        for i in range(cfg["reviews"]):
            stars = rnd.randint(0, 4)
            n = max(20, int(rnd.gauss(190, 70)))
            words = [vocab[min(int(rnd.expovariate(1 / 1500)) + stars * 40, len(vocab) - 1)] for _ in range(n)]
            for k in range(0, n, 17):
                words[k] = words[k].capitalize() + rnd.choice([",", ".", "!", "<br/>", " &amp; ", " 42"])
            if rnd.random() < 0.1:
                words.append("http://shop.example/item?id=%d" % i)
            f.write(json.dumps({"id": i, "stars": stars, "title": " ".join(words[:4]), "text": " ".join(words)}) + "\n")
    with open(CORPUS) as f:
        ready = [encode(line) for line in f]
    with open(os.path.join(FOLDER, "encoded.pkl"), "wb") as f:
        pickle.dump(ready, f)


def stem(word):
    for s in SUFFIXES:
        if word.endswith(s) and len(word) - len(s) > 2:
            return word[: -len(s)]
    return word


def encode(line):
    record = json.loads(line)
    text = html.unescape(record["title"] + " . " + record["text"]).lower()
    text = URL.sub(" url ", TAG.sub(" ", text))
    words = [stem(w) for w in WORD.findall(text)]
    ids = [zlib.crc32(w.encode()) % cfg["buckets"] + 1 for w in words]
    ids += [zlib.crc32((a + "_" + b).encode()) % cfg["buckets"] + 1 for a, b in zip(words, words[1:])]
    return ids, record["stars"]


class Reviews(Dataset):
    def __init__(self):
        if cfg["tokens"]:
            with open(os.path.join(FOLDER, cfg["tokens"]), "rb") as f:
                self.items = pickle.load(f)
        else:
            with open(CORPUS) as f:
                self.items = f.readlines()

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        item = self.items[i]
        return item if isinstance(item, tuple) else encode(item)


def collate(samples, pad=0):
    stars = torch.tensor([s for _, s in samples])
    if cfg["padding"] == "torch":
        seqs = [torch.tensor(ids) for ids, _ in samples]
        return nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=pad), stars
    longest = max(len(ids) for ids, _ in samples)
    return torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _ in samples]), stars


class BagClassifier(nn.Module):
    def __init__(self, buckets, dim, classes=5):
        super().__init__()
        self.emb = nn.EmbeddingBag(buckets + 1, dim, mode="mean", padding_idx=0, sparse=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, classes))

    def forward(self, ids):
        return self.mlp(self.emb(ids))


def train():
    torch.manual_seed(42)
    loader = DataLoader(Reviews(), cfg["batch_size"], shuffle=True, drop_last=True, num_workers=cfg["workers"],
                        persistent_workers=cfg["workers"] > 0, pin_memory=cfg["pin"], collate_fn=partial(collate, pad=0))
    model = BagClassifier(cfg["buckets"], cfg["dim"])
    sparse_opt = torch.optim.SparseAdam(model.emb.parameters(), lr=5e-3)
    dense_opt = torch.optim.Adam(model.mlp.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    log, done, seen, good = [], 0, 0, 0
    epoch = 0
    while done < cfg["steps"]:
        epoch += 1
        t_prev = time.perf_counter()
        for ids, stars in loader:
            logits = model(ids)
            loss = loss_fn(logits, stars)
            sparse_opt.zero_grad()
            dense_opt.zero_grad()
            loss.backward()
            sparse_opt.step()
            dense_opt.step()
            good += (logits.argmax(1) == stars).sum().item()
            seen += len(stars)
            done += 1
            now = time.perf_counter()
            log.append(now - t_prev)
            t_prev = now
            if done >= cfg["steps"]:
                break
        print(f"epoch {epoch}: {done} steps, accuracy {good / seen:.3f}", flush=True)
    print(f"trained {sum(log):.2f}")


if __name__ == "__main__":
    if "--prepare" in sys.argv:
        prepare()
    else:
        train()
