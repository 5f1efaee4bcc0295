"""Small GPT on a flat token file, in the spirit of the well-known single-file trainers.

python train.py --data DIR --prepare   -> train.bin (uint16)
python train.py --data DIR             -> trains, keeps the best weights in out/best.pt
"""
import os, sys, threading, time
import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

# -----------------------------------------------------------------------------
data_dir = sys.argv[sys.argv.index("--data") + 1]
out_dir = os.path.join(data_dir, "out")
n_tokens = 30_000_000
vocab_size = 6000
n_layer, n_head, n_embd = (4, 5, 320)
block_size = 64
batch_size = 4
max_iters = int(os.environ.get("STEPS", 64))
learning_rate = 6e-4
warmup = 20
always_save = os.environ.get("ALWAYS_SAVE", "") == "1"
save_interval = int(os.environ.get("SAVE_INTERVAL", "0"))    # 0: whenever the smoothed loss is at its best
save_optimizer = os.environ.get("SAVE_OPTIMIZER", "1") == "1"
save_in_thread = os.environ.get("SAVE_IN_THREAD", "0") == "1"
data_in_ram = os.environ.get("DATA_IN_RAM", "0") == "1"
# -----------------------------------------------------------------------------

if "--prepare" in sys.argv:
    os.makedirs(data_dir, exist_ok=True)
    rng = np.random.default_rng(1)
    base = np.minimum(rng.zipf(1.3, n_tokens) - 1, vocab_size - 1).astype(np.uint16)
    base[1::2] = (base[0::2][: len(base[1::2])].astype(np.int64) * 7 + 3) % vocab_size
    base.tofile(os.path.join(data_dir, "train.bin"))
    sys.exit(0)

os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
data = np.memmap(os.path.join(data_dir, "train.bin"), dtype=np.uint16, mode="r")
if data_in_ram:
    data = np.array(data)


def get_batch():
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i:i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1:i + 1 + block_size].astype(np.int64)) for i in ix])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.fc, self.back = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.back(F.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList(Block() for _ in range(n_layer))
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for b in self.blocks:
            x = b(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))


model = GPT()
print(f"parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M")
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
writer = None


def write(ckpt):
    tmp = os.path.join(out_dir, "best.pt.tmp")
    torch.save(ckpt, tmp)
    os.replace(tmp, os.path.join(out_dir, "best.pt"))


def snapshot(obj):
    if torch.is_tensor(obj):
        return obj.detach().clone()
    if isinstance(obj, dict):
        return {k: snapshot(v) for k, v in obj.items()}
    if isinstance(obj, list):
        return [snapshot(v) for v in obj]
    return obj


def save(it, loss):
    global writer
    ckpt = {"model": model.state_dict(), "iter": it, "loss": loss}
    if save_optimizer:
        ckpt["optimizer"] = optimizer.state_dict()
    if save_in_thread:
        if writer is not None:
            writer.join()
        writer = threading.Thread(target=write, args=(snapshot(ckpt),))
        writer.start()
    else:
        write(ckpt)


smooth, best = None, float("inf")
iter_s = []
for it in range(max_iters):
    t0 = time.perf_counter()
    lr = learning_rate * min(1.0, (it + 1) / warmup)
    for g in optimizer.param_groups:
        g["lr"] = lr
    X, Y = get_batch()
    loss = model(X, Y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    value = loss.item()
    smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
    if save_interval:
        if it % save_interval == save_interval - 1:
            save(it, smooth)
    elif smooth < best or always_save:
        best = smooth
        save(it, smooth)
    if it % 10 == 0:
        print(f"iter {it}: loss {value:.4f}, smoothed {smooth:.4f}", flush=True)
    iter_s.append(time.perf_counter() - t0)

tail = time.perf_counter()
if writer is not None:
    writer.join()
tail = time.perf_counter() - tail
print(f"trained {sum(iter_s) + tail:.2f}")
