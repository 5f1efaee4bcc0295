"""Sick: poles are balanced one by one in Python, by a policy gradient. Cure: arrays hold all of them."""

from __future__ import annotations

import math
import random

import numpy as np
import torch
from ledger import Ledger
from props import options

POLES, STEPS, FINE, DT = 512, 6, 20, 0.001


class Pole:
    """A pole on a cart, integrated in fine steps."""

    def __init__(self, angle: float) -> None:
        self.state = (0.0, 0.0, angle, 0.0)

    def step(self, push: float) -> float:
        """Push once; how upright the pole stands is the reward."""
        x, v, angle, cost = self.state
        for _ in range(FINE):
            sine, cosine = math.sin(angle), math.cos(angle)
            force = (push + 0.05 * cost * cost * sine) / 1.1
            bend = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
            x, v = x + DT * v, v + DT * (force - 0.05 * bend * cosine / 1.1)
            angle, cost = angle + DT * cost, cost + DT * bend
        self.state = (x, v, angle, cost)
        return math.cos(angle)


class Poles:
    """All poles, one by one."""

    def __init__(self, angles: list[float]) -> None:
        self.poles = [Pole(angle) for angle in angles]

    def seen(self) -> torch.Tensor:
        """What the policy sees of them."""
        return torch.tensor([pole.state for pole in self.poles])

    def step(self, pushes: list[float]) -> list[float]:
        """Push each of them."""
        return [pole.step(push) for pole, push in zip(self.poles, pushes, strict=True)]


class Rows:
    """The same in arrays."""

    def __init__(self, angles: list[float]) -> None:
        self.state = np.zeros((4, len(angles)))
        self.state[2] = angles

    def seen(self) -> torch.Tensor:
        """What the policy sees of them."""
        return torch.from_numpy(self.state.T.astype(np.float32))

    def step(self, pushes: list[float]) -> list[float]:
        """Push all of them."""
        push = np.array(pushes)
        x, v, angle, cost = self.state
        for _ in range(FINE):
            sine, cosine = np.sin(angle), np.cos(angle)
            force = (push + 0.05 * cost * cost * sine) / 1.1
            bend = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
            x, v = x + DT * v, v + DT * (force - 0.05 * bend * cosine / 1.1)
            angle, cost = angle + DT * cost, cost + DT * bend
        self.state = np.stack([x, v, angle, cost])
        return np.cos(angle).tolist()


def episode(policy: torch.nn.Module, poles: Poles | Rows) -> torch.Tensor:
    """Play for a while; the loss weighs what was done with what came after it."""
    logs, rewards = [], []
    for _ in range(STEPS):
        chosen = torch.distributions.Categorical(logits=policy(poles.seen()))
        actions = chosen.sample()
        logs.append(chosen.log_prob(actions))
        rewards.append(poles.step([20.0 * action - 10.0 for action in actions.tolist()]))
    gains = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    return -(torch.stack(logs) * (gains - gains.mean(dim=1, keepdim=True))).mean()


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=250, step_s=0.0210, threads=None)
    book = Ledger(given.steps, given.truth)
    draw = random.Random(0)
    policy = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in book.epochs():
        for _ in book.loop(range(100)):
            angles = [draw.uniform(-0.2, 0.2) for _ in range(POLES)]
            loss = episode(policy, Rows(angles) if given.cured else Poles(angles))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
