"""Whether a loop changes what it gets its batches from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.loop_without_loader import is_fed_back
from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Feed, LoopBody
from tests.analyse.runs import own_loop
from tests.analyse.test_loop_parts import FILE, profile

TEXT = """\
def main():
    for step in range(steps):
        index, x, y = {source}
        loss = loss_of(model(x), y)
        loss.backward()
        {after}
"""
BODY = LoopBody(FILE, "main", 41, 45, [Feed(42, 42), Feed(43, 43, [0]), Feed(44, 44, [1])])


@pytest.mark.parametrize(
    ("source", "after", "fed_back"),
    [
        ("log.sample(64)", "log.update(index, loss.detach())", True),
        ("log.sample(64)", "history.append(loss.item())", False),
        ("self.buffer.sample(64)", "self.buffer.push(x, loss)", True),
        ("self.get_batch(step)", "self.add_scalar('loss', loss)", False),
        ("trainer.get_batch()", "trainer.report(loss)", False),
    ],
)
def test_what_is_handed_to_the_source_is_feedback(source: str, after: str, fed_back: bool) -> None:
    frames = [f"<module> ({FILE}:90)", f"main ({FILE}:42)", f"get_batch ({FILE}:9)"]
    text = TEXT.format(source=source, after=after)
    run = replace(
        profile(Stack(1, "trainer", "MainThread", frames, 100)),
        sources=[FunctionSource(FILE, "main", 40, text)],
    )
    assert is_fed_back(run, own_loop(100, BODY, wall_s=0.02)) == fed_back
