"""Evaluation within the training loop, without a loader, is found by what its forward passes are for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.evaluated import Evaluated, find_evaluated
from bottleneck_doctor.model.loops import LoopBody
from bottleneck_doctor.model.profile import Location, Stack
from bottleneck_doctor.model.source import Source
from tests.analyse.runs import own_loop, run_of

MAIN = """\
def main():
    for step in range(100):
        if step % 10 == 0:
            {evaluate}
        {train}
        loss.backward()
        optimizer.step()
"""
ESTIMATE = """\
@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = [model(get_batch()) for _ in range(60)]
    model.train()
    return sum(losses)
"""
FORWARD = """\
def forward(self, x):
    return self.head(x)
"""
TORCH = "_call_impl (/x/site-packages/torch/nn/modules/module.py:1)"
BODY = LoopBody("train.py", "main", 2, 7)


def told(evaluate: str, train: str = "loss = model(get_batch())") -> Evaluated:
    forward = [TORCH, "forward (train.py:41)"]
    stacks = [
        stack(60, "main (train.py:4)", "estimate_loss (train.py:23)", *forward),
        stack(10, "main (train.py:5)", *forward),
        stack(30, "main (train.py:6)", "backward (/x/site-packages/torch/_tensor.py:1)"),
    ]
    sources = [
        Source("train.py", "main", 1, MAIN.format(evaluate=evaluate, train=train)),
        Source("train.py", "estimate_loss", 20, ESTIMATE),
        Source("train.py", "forward", 40, FORWARD),
    ]
    profile = replace(run_of(), stacks=stacks, sources=sources)
    return find_evaluated(profile, None, own_loop(10, BODY, wall_s=0.01))


def stack(count: int, *frames: str) -> Stack:
    return Stack(1, "trainer", "MainThread", list(frames), count)


@pytest.mark.parametrize("evaluate", ["estimate_loss(model)", "print(estimate_loss(model))"])
def test_forward_passes_that_nothing_is_trained_on_are_evaluation(evaluate: str) -> None:
    found = told(evaluate)
    assert (found.share, found.place) == (0.6, Location("train.py", 4, "main"))


def test_those_that_the_training_needs_are_not() -> None:
    """A teacher's, a critic's or a momentum encoder's, without gradients."""
    assert told("x = estimate_loss(model)", "loss = model(x)") == Evaluated()
