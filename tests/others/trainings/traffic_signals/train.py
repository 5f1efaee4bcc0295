"""Advantage actor-critic for the signal plan of a ring road crossing (no data files needed)."""
import math
import random
import time
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

LANES, CARS, LENGTH = 12, 40, 600.0
LIGHT_AT = 300.0
ACTIONS = 4
SUBSTEPS = 2


class Car:
    __slots__ = ("x", "v", "v0")

    def __init__(self, x, v, v0):
        self.x, self.v, self.v0 = x, v, v0


class RingCrossing:
    """Intelligent-driver-model cars on LANES ring lanes, each lane with one signal."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def reset(self):
        self.t = 0
        self.lanes = []
        for _ in range(LANES):
            gap = LENGTH / CARS
            self.lanes.append([Car(i * gap, self.rng.uniform(2, 8), self.rng.uniform(10, 16))
                               for i in range(CARS)])
        return self.observe(0)

    def green(self, lane, action):
        return (lane + action) % ACTIONS < 2

    def step(self, action):
        reward = 0.0
        for _ in range(SUBSTEPS):
            for k, lane in enumerate(self.lanes):
                green = self.green(k, action)
                new_v = []
                for i, car in enumerate(lane):
                    leader = lane[(i + 1) % CARS]
                    gap = (leader.x - car.x) % LENGTH - 4.0
                    dv = car.v - leader.v
                    if not green:
                        to_light = (LIGHT_AT - car.x) % LENGTH
                        if to_light < gap:
                            gap, dv = to_light, car.v
                    gap = max(gap, 0.5)
                    wish = 2.0 + max(0.0, car.v * 1.2 + car.v * dv / (2 * math.sqrt(1.5 * 2.0)))
                    acc = 1.5 * (1 - (car.v / car.v0) ** 4 - (wish / gap) ** 2)
                    new_v.append(min(max(car.v + 0.5 * max(acc, -8.0), 0.0), 20.0))
                for car, v in zip(lane, new_v):
                    car.v = v
                    car.x = (car.x + 0.5 * v) % LENGTH
                    reward += v / (LANES * CARS * 10.0)
        self.t += 1
        return self.observe(action), reward / SUBSTEPS, self.t >= 200

    def observe(self, action):
        obs = []
        for lane in self.lanes:
            waiting = sum(1 for c in lane if c.v < 1.0)
            near = sum(1 for c in lane if 0 < (LIGHT_AT - c.x) % LENGTH < 60.0)
            mean_v = sum(c.v for c in lane) / CARS
            obs += [waiting / CARS, near / 10.0, mean_v / 10.0]
        obs += [1.0 if action == a else 0.0 for a in range(ACTIONS)]
        return obs


class ActorCritic(nn.Module):
    def __init__(self, n_obs, hidden=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, ACTIONS)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        z = self.body(obs)
        return self.pi(z), self.v(z).squeeze(-1)


def main(updates=560, horizon=50, gamma=0.97):
    torch.manual_seed(0)
    env = RingCrossing(seed=0)
    obs = env.reset()
    net = ActorCritic(LANES * 3 + ACTIONS)
    opt = torch.optim.Adam(net.parameters(), lr=7e-4)
    recent, episode_return = deque(maxlen=10), 0.0

    start = time.perf_counter()
    for update in range(updates):
        log_probs, values, rewards, entropies, masks = [], [], [], [], []
        for _ in range(horizon):
            logits, value = net(torch.tensor(obs))
            dist = Categorical(logits=logits)
            action = dist.sample()
            obs, reward, done = env.step(action.item())
            log_probs.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            values.append(value)
            rewards.append(reward)
            masks.append(0.0 if done else 1.0)
            episode_return += reward
            if done:
                recent.append(episode_return)
                episode_return = 0.0
                obs = env.reset()
        with torch.no_grad():
            ret = net(torch.tensor(obs))[1].item()
        returns = []
        for r, m in zip(reversed(rewards), reversed(masks)):
            ret = r + gamma * m * ret
            returns.append(ret)
        returns = torch.tensor(returns[::-1])
        values = torch.stack(values)
        adv = returns - values.detach()
        loss = (-(torch.stack(log_probs) * adv).mean() + 0.5 * F.mse_loss(values, returns)
                - 0.01 * torch.stack(entropies).mean())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if update % 40 == 0:
            mean = sum(recent) / len(recent) if recent else float("nan")
            print(f"update {update:4d}  loss {loss.item():+.4f}  return(10) {mean:.2f}", flush=True)
    print(f"trained {time.perf_counter() - start:.2f}")


if __name__ == "__main__":
    main()
