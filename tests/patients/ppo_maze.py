"""Sick: PPO's players look around their mazes in Python, ray by ray. Cure: arrays hold all rays."""

import numpy as np
import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.distributions import Categorical

PLAYERS, STEPS, SIDE, REACH, RAYS, MINIBATCHES, PASSES = 32, 32, 24, 12, 32, 4, 2
MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


class Mazes:
    """A maze, and players who see how far the next wall is in each direction."""

    def __init__(self, in_arrays: bool) -> None:
        state = np.random.default_rng(0)
        self.walls = state.random((SIDE, SIDE)) < 0.08
        self.places = state.integers(0, SIDE, (PLAYERS, 2))
        costs = np.arange(RAYS) * 2 * np.pi / RAYS
        self.rays = np.stack([np.cos(costs), np.sin(costs)], axis=1)
        self.look = self.all_rays if in_arrays else self.ray_by_ray

    def ray_by_ray(self) -> np.ndarray:
        """How far each player sees."""
        grid, rays = self.walls.tolist(), self.rays.tolist()
        return np.array([[self.reach(grid, *place, *ray) for ray in rays] for place in self.places.tolist()])

    def reach(self, grid: list[list[bool]], row: int, column: int, down: float, right: float) -> int:
        """The steps along a ray until there is a wall."""
        for far in range(1, REACH):
            if grid[int(row + far * down + SIDE) % SIDE][int(column + far * right + SIDE) % SIDE]:
                return far
        return REACH

    def all_rays(self) -> np.ndarray:
        """The same at once."""
        far = np.arange(1, REACH)[:, None]
        cells = (self.places[:, None, None] + far * self.rays[:, None] + SIDE).astype(int) % SIDE
        hit = self.walls[cells[..., 0], cells[..., 1]]
        return np.where(hit.any(axis=2), hit.argmax(axis=2) + 1, REACH)

    def step(self, actions: np.ndarray) -> np.ndarray:
        """Move, and be paid for open space."""
        self.places = (self.places + MOVES[actions]) % SIDE
        return np.where(self.walls[self.places[:, 0], self.places[:, 1]], -1.0, 0.1)


class Agent(nn.Module):
    """A policy and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(RAYS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, 4), nn.Linear(64, 1)

    def forward(self, seen: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        body = self.body(seen)
        return Categorical(logits=self.policy(body)), self.value(body).squeeze(-1)


Played = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@torch.no_grad()
def rollout(agent: Agent, mazes: Mazes) -> Played:
    """What was seen, done and thought of it, and what it brought."""
    seen, done, logs, rewards = [], [], [], []
    for _ in range(STEPS):
        view = torch.tensor(mazes.look(), dtype=torch.float32) / REACH
        chosen, _ = agent(view)
        action = chosen.sample()
        seen.append(view)
        done.append(action)
        logs.append(chosen.log_prob(action))
        rewards.append(torch.from_numpy(mazes.step(action.numpy())).float())
    gains = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    return torch.cat(seen), torch.cat(done), torch.cat(logs), gains.flatten()


def update(agent: Agent, optimizer: torch.optim.Optimizer, played: Played) -> torch.Tensor:
    """Several passes over what was played, in parts."""
    for _ in range(PASSES):
        for rows in torch.randperm(PLAYERS * STEPS).chunk(MINIBATCHES):
            seen, done, logs, gains = (part[rows] for part in played)
            chosen, value = agent(seen)
            ratio = (chosen.log_prob(done) - logs).exp()
            edge = (gains - value).detach()
            clipped = torch.minimum(ratio * edge, ratio.clamp(0.8, 1.2) * edge)
            loss = 0.5 * (gains - value).square().mean() - clipped.mean() - 0.01 * chosen.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    return loss


def main() -> None:
    given = options(__doc__, steps=60, step_s=0.1200, threads=None)
    book = Ledger(given.steps, given.truth)
    mazes, agent = Mazes(in_arrays=given.cured), Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    for _ in book.epochs():
        for _ in book.loop(range(given.steps)):
            book.note(update(agent, optimizer, rollout(agent, mazes)))


if __name__ == "__main__":
    main()
