"""Galaxy morphology classifier reading cut-outs from the survey's object store.

On the laptop the bucket is replayed by a small gateway process (same keys, same round trip as
from the institute), started below; on the cluster STORE_HOST points at the real one.
"""
import argparse
import http.client
import io
import json
import os
import subprocess
import sys
import time

ROUND_TRIP = 0.025


def serve(root):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Gateway(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            time.sleep(ROUND_TRIP)
            with open(os.path.join(root, self.path.lstrip("/")), "rb") as f:
                body = f.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *a):
            pass

    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__" and sys.argv[1:2] == ["serve"]:
    serve(sys.argv[2])
    sys.exit()

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class StoreDataset(Dataset):
    def __init__(self, host, records):
        self.host = host
        self.records = records

    def __len__(self):
        return len(self.records)

    def fetch(self, key):
        conn = http.client.HTTPConnection(self.host, timeout=30)
        conn.request("GET", "/" + key)
        body = conn.getresponse().read()
        conn.close()
        return np.load(io.BytesIO(body))

    def __getitem__(self, i):
        rec = self.records[i]
        img = self.fetch(rec["key"])
        x = torch.from_numpy(img).permute(2, 0, 1).float() / 255.0
        return x, rec["class"]


def conv(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


def build_model():
    return nn.Sequential(conv(3, 16, 2), conv(16, 32, 1), conv(32, 48, 2), conv(48, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 3))


def train(args, host):
    conn = http.client.HTTPConnection(host)
    conn.request("GET", "/index.json")
    index = json.loads(conn.getresponse().read())
    conn.close()
    train_set = StoreDataset(host, [r for r in index if r["split"] == "train"])
    val_set = StoreDataset(host, [r for r in index if r["split"] == "val"])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)

    model = build_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    loss_fn = nn.CrossEntropyLoss()
    t0 = time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        for step, (x, y) in enumerate(train_loader):
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        model.eval()
        correct = 0
        with torch.no_grad():
            for x, y in val_loader:
                correct += (model(x).argmax(1) == y).sum().item()
        print(f"epoch {epoch} val accuracy {correct / len(val_set):.3f}", flush=True)
    return time.perf_counter() - t0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    host, gateway = os.environ.get("STORE_HOST"), None
    if not host:
        gateway = subprocess.Popen([sys.executable, os.path.abspath(__file__), "serve", args.data],
                                   stdout=subprocess.PIPE, text=True)
        host = "127.0.0.1:" + gateway.stdout.readline().strip()
    try:
        seconds = train(args, host)
    finally:
        if gateway is not None:
            gateway.terminate()
            gateway.wait()
    print(f"trained {seconds:.2f}")
