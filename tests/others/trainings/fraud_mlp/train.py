"""Fraud scoring on card transactions kept in SQLite.

    python train.py --data DIR --prepare   (fills transactions.db)
    python train.py --data DIR
"""
import os
import queue
import sqlite3
import sys
import threading
import time

import numpy as np
import torch
from torch import nn

HOME = sys.argv[sys.argv.index("--data") + 1]
DB = os.path.join(HOME, "transactions.db")
ROWS = 150_000
STEPS = int(os.environ.get("STEPS", "560"))
BATCH = 1024
READ_MODE = os.environ.get("READ_MODE", "rows")
PAGE_CACHE_KB = int(os.environ.get("PAGE_CACHE_KB", "0"))
READ_AHEAD = int(os.environ.get("READ_AHEAD", "0"))
NUMERIC = [f"v{i}" for i in range(20)]
COLUMNS = ["amount", "balance", "age_days", "hour", "merchant", "country"] + NUMERIC + ["is_fraud"]


def prepare():
    os.makedirs(HOME, exist_ok=True)
    if os.path.exists(DB):
        os.remove(DB)
    rng = np.random.default_rng(21)
    con = sqlite3.connect(DB)
    cols = ", ".join(f"{c} REAL" for c in COLUMNS)
    con.execute(f"CREATE TABLE transactions (id INTEGER PRIMARY KEY, {cols})")
    v = rng.standard_normal((ROWS, len(NUMERIC)))
    amount, balance = rng.lognormal(3, 1, ROWS), rng.lognormal(7, 1, ROWS)
    age, hour = rng.integers(1, 4000, ROWS), rng.integers(0, 24, ROWS)
    merchant, country = rng.integers(0, 500, ROWS), rng.integers(0, 60, ROWS)
    fraud = (v[:, 0] + 0.5 * v[:, 3] + (hour < 5) + 0.4 * np.log1p(amount) + rng.standard_normal(ROWS) > 4).astype(float)
    table = np.column_stack([np.arange(ROWS), amount, balance, age, hour, merchant, country, v, fraud])
    marks = ",".join("?" * table.shape[1])
    con.executemany(f"INSERT INTO transactions VALUES ({marks})", (tuple(r) for r in table.tolist()))
    con.commit()
    con.close()


def connect():
    con = sqlite3.connect(DB, check_same_thread=False)
    con.row_factory = sqlite3.Row if READ_MODE == "rows" else None
    if PAGE_CACHE_KB:
        con.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KB}")
    return con


class TransactionReader:
    query = "SELECT " + ", ".join(COLUMNS) + " FROM transactions"

    def __init__(self):
        self.con = connect()
        self.count = self.con.execute("SELECT COUNT(*) FROM transactions").fetchone()[0]
        self.table = None
        if READ_MODE == "memory":
            self.table = self.convert(np.array(self.con.execute(self.query + " ORDER BY id").fetchall(), dtype=np.float32))

    @staticmethod
    def convert(raw):
        out = raw.astype(np.float32)
        out[:, 0:3] = np.log1p(raw[:, 0:3])
        out[:, 3] = np.sin(raw[:, 3] * (2 * np.pi / 24))
        return out

    def features(self, row):
        head = [np.log1p(row["amount"]), np.log1p(row["balance"]), np.log1p(row["age_days"]),
                np.sin(row["hour"] * 2 * np.pi / 24), row["merchant"], row["country"]]
        return head + [row[c] for c in NUMERIC]

    def batch(self, ids):
        if self.table is not None:
            part = self.table[ids]
        elif READ_MODE == "many":
            wanted = ",".join(map(str, ids.tolist()))
            part = self.convert(np.array(self.con.execute(f"{self.query} WHERE id IN ({wanted})").fetchall(), dtype=np.float32))
        else:
            xs, ys = [], []
            for i in ids.tolist():
                row = self.con.execute(self.query + " WHERE id = ?", (i,)).fetchone()
                xs.append(self.features(row))
                ys.append(row["is_fraud"])
            part = np.column_stack([np.array(xs, dtype=np.float32), np.array(ys, dtype=np.float32)])
        part = torch.from_numpy(part)
        return part[:, :4], part[:, 4:6].long(), part[:, 6:-1], part[:, -1]


def batches(reader, steps):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        yield reader.batch(rng.integers(0, reader.count, BATCH))


def ahead(gen, depth):
    q = queue.Queue(depth)

    def pump():
        for item in gen:
            q.put(item)
        q.put(None)

    threading.Thread(target=pump, daemon=True).start()
    while (item := q.get()) is not None:
        yield item


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.merchant = nn.Embedding(500, 16)
        self.country = nn.Embedding(60, 8)
        self.net = nn.Sequential(nn.Linear(4 + 16 + 8 + len(NUMERIC), 192), nn.ReLU(), nn.Linear(192, 128), nn.ReLU(),
                                 nn.Linear(128, 1))

    def forward(self, num, cat, v):
        return self.net(torch.cat([num, self.merchant(cat[:, 0]), self.country(cat[:, 1]), v], 1)).squeeze(1)


def main():
    torch.manual_seed(0)
    reader = TransactionReader()
    model = Scorer()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
    stream = batches(reader, STEPS)
    if READ_AHEAD:
        stream = ahead(stream, READ_AHEAD)
    avg = None
    total = []
    for step in range(1, STEPS + 1):
        t = time.perf_counter()
        num, cat, v, y = next(stream)
        loss = bce(model(num, cat, v), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        avg = loss.item() if avg is None else 0.98 * avg + 0.02 * loss.item()
        if step % 50 == 0:
            print(f"{step}/{STEPS} loss {avg:.4f}", flush=True)
        total.append(time.perf_counter() - t)
    print(f"trained {sum(total):.2f}")


if __name__ == "__main__":
    prepare() if "--prepare" in sys.argv else main()
