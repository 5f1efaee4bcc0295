"""GraphSAGE node classification on a co-purchase graph (two hops, sampled).

A feeder thread keeps a queue of ready mini-batches.
  python train.py --data DIR --prepare ; python train.py --data DIR
"""
import os, pickle, queue, random, sys, threading, time
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GRAPH = sys.argv[sys.argv.index("--data") + 1] + "/graph.pkl"
NODES = 60000
CLASSES, DIM = 16, 64
FANOUT = (12, 6)
SEEDS = 256
STEPS = int(os.environ.get("STEPS", 280))
FEEDERS = int(os.environ.get("FEEDERS", "1"))
FEED_WITH = os.environ.get("FEED_WITH", "thread")
DEPTH = int(os.environ.get("DEPTH", "4"))
SAMPLER = os.environ.get("SAMPLER", "lists")


def prepare():
    os.makedirs(os.path.dirname(GRAPH), exist_ok=True)
    rng = np.random.default_rng(2)
    y = rng.integers(0, CLASSES, NODES)
    by_class = [np.flatnonzero(y == c) for c in range(CLASSES)]
    adj = {}
    for n in range(NODES):
        deg = int(min(60, 6 + rng.pareto(2.0) * 8))
        same = rng.choice(by_class[y[n]], deg // 2 + 1)
        other = rng.integers(0, NODES, deg - deg // 2)
        adj[n] = np.concatenate([same, other]).tolist()
    x = rng.standard_normal((NODES, DIM)).astype(np.float32) + 0.3 * rng.standard_normal((CLASSES, DIM)).astype(np.float32)[y]
    with open(GRAPH, "wb") as f:
        pickle.dump({"adj": adj, "x": x, "y": y}, f)


class ListSampler:
    def __init__(self, g, seed):
        self.adj, self.y = g["adj"], torch.from_numpy(g["y"])
        self.x = {n: torch.from_numpy(row) for n, row in enumerate(g["x"])}
        self.rnd = random.Random(seed)

    def pick(self, n, k):
        nb = self.adj[n]
        return self.rnd.sample(nb, k) if len(nb) >= k else self.rnd.choices(nb, k=k)

    def __call__(self):
        seeds = [self.rnd.randrange(len(self.adj)) for _ in range(SEEDS)]
        hop1 = [self.pick(n, FANOUT[0]) for n in seeds]
        front = seeds + [m for row in hop1 for m in row]
        hop2 = [self.pick(n, FANOUT[1]) for n in front]
        ids = {}
        for n in front:
            ids.setdefault(n, len(ids))
        for row in hop2:
            for m in row:
                ids.setdefault(m, len(ids))
        feats = torch.stack([self.x[n] for n in ids])
        front_idx = torch.tensor([ids[n] for n in front])
        hop2_idx = torch.tensor([[ids[m] for m in row] for row in hop2])
        return feats, front_idx, hop2_idx, self.y[torch.tensor(seeds)]


class CsrSampler:
    def __init__(self, g, seed):
        self.ptr = np.cumsum([0] + [len(g["adj"][n]) for n in range(len(g["adj"]))])
        self.col = np.concatenate([np.asarray(g["adj"][n]) for n in range(len(g["adj"]))])
        self.x, self.y = torch.from_numpy(g["x"]), torch.from_numpy(g["y"])
        self.rng = np.random.default_rng(seed)

    def pick(self, nodes, k):
        lo, deg = self.ptr[nodes], self.ptr[nodes + 1] - self.ptr[nodes]
        return self.col[lo[:, None] + (self.rng.random((len(nodes), k)) * deg[:, None]).astype(np.int64)]

    def __call__(self):
        seeds = self.rng.integers(0, len(self.ptr) - 1, SEEDS)
        hop1 = self.pick(seeds, FANOUT[0])
        front = np.concatenate([seeds, hop1.ravel()])
        hop2 = self.pick(front, FANOUT[1])
        ids, inv = np.unique(np.concatenate([front, hop2.ravel()]), return_inverse=True)
        inv = torch.from_numpy(inv)
        return self.x[torch.from_numpy(ids)], inv[:len(front)], inv[len(front):].view(len(front), -1), self.y[torch.from_numpy(seeds)]


def fill(graph, seed, q):
    sampler = (CsrSampler if SAMPLER == "csr" else ListSampler)(graph, seed)
    if FEED_WITH == "process":
        torch.set_num_threads(1)
    while True:
        q.put(sampler())


class Sage(nn.Module):
    def __init__(self, hid=48):
        super().__init__()
        self.self1, self.nb1 = nn.Linear(DIM, hid), nn.Linear(DIM, hid)
        self.self2, self.nb2 = nn.Linear(hid, hid), nn.Linear(hid, hid)
        self.out = nn.Linear(hid, CLASSES)

    def forward(self, feats, front, hop2):
        h = F.relu(self.self1(feats[front]) + self.nb1(feats[hop2].mean(1)))
        seeds, nb = h[:SEEDS], h[SEEDS:].view(SEEDS, FANOUT[0], -1)
        return self.out(F.relu(self.self2(seeds) + self.nb2(nb.mean(1))))


def main():
    with open(GRAPH, "rb") as f:
        graph = pickle.load(f)
    if FEED_WITH == "process":
        import torch.multiprocessing as tmp
        q = tmp.get_context("fork").Queue(DEPTH)
        helpers = [tmp.get_context("fork").Process(target=fill, args=(graph, i, q), daemon=True) for i in range(FEEDERS)]
    else:
        q = queue.Queue(DEPTH)
        helpers = [threading.Thread(target=fill, args=(graph, i, q), daemon=True) for i in range(FEEDERS)]
    for h in helpers:
        h.start()
    torch.manual_seed(0)
    model = Sage()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    correct = 0
    t_steps = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        feats, front, hop2, y = q.get()
        logits = model(feats, front, hop2)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad(); loss.backward(); opt.step()
        correct += int((logits.argmax(1) == y).sum())
        if (step + 1) % 40 == 0:
            print(f"{step + 1:5d} loss {loss.item():.3f} acc {correct / 40 / SEEDS:.3f}", flush=True)
            correct = 0
        t_steps.append(time.perf_counter() - t0)
    print(f"trained {sum(t_steps):.2f}", flush=True)
    if FEED_WITH == "process":
        for h in helpers:
            h.terminate()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if "--prepare" in sys.argv:
        prepare()
    else:
        main()
