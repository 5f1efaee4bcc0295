"""DQN for the Catcher arcade game (own environment with the gym interface).

`python train.py --data DIR --prepare` records a few random games to seed the replay buffer.
"""
import collections
import os
import random
import sys
import time

import numpy as np
import torch
import torch.nn as nn

SEED_FILE = os.path.join(sys.argv[sys.argv.index("--data") + 1], "games.npz")
SEED_GAMES = 40
STEPS = int(os.environ.get("STEPS", 340))
NUM_ENVS = int(os.environ.get("NUM_ENVS", "1"))
RENDER_FPS = int(os.environ.get("RENDER_FPS", "30"))
TORCH_THREADS = int(os.environ.get("TORCH_THREADS", "0"))
BUFFER = os.environ.get("BUFFER", "deque")
BATCH = 32
SIZE = 42


class Clock:
    """Like the clock of the game libraries: tick(fps) keeps the frame rate steady."""

    def __init__(self):
        self.last = time.perf_counter()

    def tick(self, fps):
        if fps > 0:
            left = self.last + 1.0 / fps - time.perf_counter()
            if left > 0:
                time.sleep(left)
        self.last = time.perf_counter()


class Catcher:
    metadata = {"render_fps": RENDER_FPS}
    actions = 3

    def __init__(self, seed=0):
        self.rng = random.Random(seed)
        self.clock = Clock()

    def reset(self):
        self.paddle, self.lives = SIZE // 2, 3
        self._drop()
        self.frames = collections.deque([self._draw()] * 4, maxlen=4)
        return self._obs()

    def _drop(self):
        self.x, self.y = self.rng.randrange(3, SIZE - 3), 0

    def _draw(self):
        f = np.zeros((SIZE, SIZE), dtype=np.uint8)
        f[self.y:self.y + 3, self.x - 1:self.x + 2] = 255
        f[SIZE - 3:, max(0, self.paddle - 4):self.paddle + 5] = 180
        return f

    def _obs(self):
        return np.stack(self.frames)

    def step(self, action, fps=None):
        self.paddle = min(SIZE - 1, max(0, self.paddle + (action - 1) * 2))
        self.y += 2
        reward, done = 0.0, False
        if self.y >= SIZE - 3:
            if abs(self.x - self.paddle) <= 5:
                reward = 1.0
            else:
                reward, self.lives = -1.0, self.lives - 1
            done = self.lives == 0
            self._drop()
        self.frames.append(self._draw())
        self.clock.tick(self.metadata["render_fps"] if fps is None else fps)
        return self._obs(), reward, done, {}


class DequeReplay:
    def __init__(self, capacity):
        self.mem = collections.deque(maxlen=capacity)

    def push(self, *transition):
        self.mem.append(transition)

    def sample(self, n):
        s, a, r, s2, d = zip(*random.sample(self.mem, n))
        return (torch.from_numpy(np.stack(s)).float() / 255, torch.tensor(a), torch.tensor(r, dtype=torch.float32),
                torch.from_numpy(np.stack(s2)).float() / 255, torch.tensor(d, dtype=torch.float32))


class ArrayReplay:
    def __init__(self, capacity):
        self.cap, self.n, self.i = capacity, 0, 0
        self.s = np.zeros((capacity, 4, SIZE, SIZE), np.uint8)
        self.s2 = np.zeros_like(self.s)
        self.a, self.r, self.d = np.zeros(capacity, np.int64), np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)

    def push(self, s, a, r, s2, d):
        i = self.i
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = s, a, r, s2, d
        self.i, self.n = (i + 1) % self.cap, min(self.n + 1, self.cap)

    def sample(self, k):
        j = np.random.randint(0, self.n, k)
        t = torch.from_numpy
        return t(self.s[j]).float() / 255, t(self.a[j]), t(self.r[j]), t(self.s2[j]).float() / 255, t(self.d[j])


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(4, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(),
                               nn.Linear(32 * 9 * 9, 128), nn.ReLU(), nn.Linear(128, Catcher.actions))

    def forward(self, x):
        return self.f(x)


def record():
    env, rows = Catcher(99), []
    for _ in range(SEED_GAMES):
        s, done = env.reset(), False
        while not done:
            a = random.randrange(3)
            s2, r, done, _ = env.step(a, fps=0)
            rows.append((s, a, r, s2, done))
            s = s2
    s, a, r, s2, d = zip(*rows)
    os.makedirs(os.path.dirname(SEED_FILE), exist_ok=True)
    np.savez(SEED_FILE, s=np.stack(s), a=np.array(a), r=np.array(r), s2=np.stack(s2), d=np.array(d))


def train():
    if TORCH_THREADS:
        torch.set_num_threads(TORCH_THREADS)
    random.seed(0); np.random.seed(0); torch.manual_seed(0)
    q, target = QNet(), QNet()
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=5e-4)
    memory = (ArrayReplay if BUFFER == "array" else DequeReplay)(10000)
    old = np.load(SEED_FILE)
    for row in zip(old["s"], old["a"].tolist(), old["r"].tolist(), old["s2"], old["d"].tolist()):
        memory.push(*row)
    envs = [Catcher(i) for i in range(NUM_ENVS)]
    states = [e.reset() for e in envs]
    score, eps = 0.0, 1.0
    span = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        k = step % NUM_ENVS
        if random.random() < eps:
            action = random.randrange(Catcher.actions)
        else:
            with torch.no_grad():
                action = int(q(torch.from_numpy(states[k]).float().unsqueeze(0) / 255).argmax())
        nxt, reward, done, _ = envs[k].step(action)
        memory.push(states[k], action, reward, nxt, done)
        states[k] = envs[k].reset() if done else nxt
        s, a, r, s2, d = memory.sample(BATCH)
        with torch.no_grad():
            y = r + 0.97 * target(s2).max(1).values * (1 - d)
        loss = nn.functional.smooth_l1_loss(q(s).gather(1, a[:, None]).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        score += reward
        eps = max(0.1, eps - 0.002)
        if step % 100 == 0:
            target.load_state_dict(q.state_dict())
            print(f"step {step} eps {eps:.2f} reward {score:+.0f} loss {loss.item():.4f}", flush=True)
        span.append(time.perf_counter() - t0)
    print(f"trained {sum(span):.2f}")


if __name__ == "__main__":
    record() if "--prepare" in sys.argv else train()
