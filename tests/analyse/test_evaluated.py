"""Evaluation within the training loop, without a loader, is found by what its forward passes are for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.attribution import attribute
from bottleneck_doctor.analyse.evaluation import Evaluated
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import LoopBody
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
    picture.save("losses.png")
    model.train()
    return sum(losses)
"""
FORWARD = """\
def forward(self, x):
    return self.head(x)
"""
TORCH = "_call_impl (/x/site-packages/torch/nn/modules/module.py:1)"
BODY = LoopBody("train.py", "main", 2, 7)


def told(evaluate: str, train: str = "loss = model(get_batch())", written: int = 0) -> Evaluated:
    """``written`` of the evaluation's 60 samples are in no forward pass."""
    forward = [TORCH, "forward (train.py:41)"]
    stacks = [
        stack(60 - written, "main (train.py:4)", "estimate_loss (train.py:23)", *forward),
        stack(written, "main (train.py:4)", "estimate_loss (train.py:24)", "save (/x/PIL/Image.py:9)"),
        stack(10, "main (train.py:5)", *forward),
        stack(30, "main (train.py:6)", "backward (/x/site-packages/torch/_tensor.py:1)"),
    ]
    sources = [
        FunctionSource("train.py", "main", 1, MAIN.format(evaluate=evaluate, train=train)),
        FunctionSource("train.py", "estimate_loss", 20, ESTIMATE),
        FunctionSource("train.py", "forward", 40, FORWARD),
    ]
    profile = replace(run_of(), stacks=stacks, sources=sources)
    return attribute(profile, own_loop(10, BODY, wall_s=0.01)).evaluated


def stack(count: int, *frames: str) -> Stack:
    return Stack(1, "trainer", "MainThread", list(frames), count)


@pytest.mark.parametrize("evaluate", ["estimate_loss(model)", "print(estimate_loss(model))"])
def test_forward_passes_that_nothing_is_trained_on_are_evaluation(evaluate: str) -> None:
    found = told(evaluate)
    assert (found.share, found.place) == (0.6, Location("train.py", 4, "main"))


def test_what_takes_its_time_to_be_written_is_logging_and_no_evaluation() -> None:
    assert told("print(estimate_loss(model))", written=10).share > 0
    assert told("print(estimate_loss(model))", written=45).share == 0


def test_those_that_the_training_needs_are_not() -> None:
    """A teacher's, a critic's or a momentum encoder's, without gradients."""
    assert told("x = estimate_loss(model)", "loss = model(x)") == Evaluated()


def test_evaluation_is_set_aside_from_the_steps_that_are_longer_than_usual() -> None:
    """Every tenth step of 10 ms evaluates for 90 ms more: 9 of 19 seconds."""
    run = run_of(cpu=2e-3, compute=8e-3, steps=1000, noise=0.0)
    table = run.loops[0].table
    walls = [0.1 if place % 10 == 9 else 0.01 for place in range(1000)]
    busy = [wall - 2e-3 for wall in walls]
    loop = replace(run.loops[0], table=replace(table, wall_s=walls, cpu_s=busy))
    aside = Evaluated(share=9 / 19).set_aside(loop).table
    assert aside.wall_s == pytest.approx([0.01] * 1000)
    assert aside.wait_s == table.wait_s
    assert aside.cpu_s == pytest.approx([8e-3] * 1000)
    assert Evaluated().set_aside(loop) is loop
    seen = Evaluated(share=0.43, samples=200)  # 36 to 50 %: the clock decides
    assert seen.clocked(walls, table.steps).share == pytest.approx(9 / 19)
    assert seen.clocked(walls, table.steps).set_aside(loop).table.wall_s == pytest.approx([0.01] * 1000)
    surely = Evaluated(share=0.3, samples=2000)
    assert surely.clocked(walls, table.steps) == surely
    assert sum(surely.set_aside(loop).table.wall_s) == pytest.approx(0.7 * 19)
    few = replace(surely, watched_s=0.9)  # ten bursts of 90 ms at most
    assert few.clocked(walls, table.steps).share == pytest.approx(9 / 19)


def test_an_evaluation_in_every_step_is_taken_off_all_alike() -> None:
    loop = run_of(cpu=2e-3, compute=18e-3, noise=0.0).loops[0]
    assert Evaluated(share=0.5).set_aside(loop).table.wall_s == pytest.approx([0.01] * 300)


def test_a_model_of_plain_functions_is_evaluated_now_and_then() -> None:
    """No module is called: `no_grad`, every tenth step, and nothing trained that needs its result."""
    quiet = [stack(60, "main (train.py:4)", "estimate_loss (train.py:23)")]
    for rarely, share in (("if step % 10 == 0:", 0.6), ("if True:", 0.0)):
        main = MAIN.replace("if step % 10 == 0:", rarely).format(
            evaluate="found = estimate_loss(model)", train="loss = model(get_batch())"
        )
        sources = [
            FunctionSource("train.py", "main", 1, main),
            FunctionSource("train.py", "estimate_loss", 20, ESTIMATE),
        ]
        rest = [stack(40, "main (train.py:6)", "backward (/x/site-packages/torch/_tensor.py:1)")]
        profile = replace(run_of(), stacks=quiet + rest, sources=sources)
        assert attribute(profile, own_loop(10, BODY, wall_s=0.01)).evaluated.share == share
