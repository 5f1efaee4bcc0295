"""The loop around a training and the lines that feed its model are read from the script's own source."""

from pathlib import Path

import pytest

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.loops import LoopBody
from bottleneck_doctor.source.reader import read_body

FOR = """\
for epoch in range(3):
    for x, y in batches():  # loop
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()  # trains
        optimizer.step()
        seen += accuracy(x, y)
        print(loss)
"""
WHILE = """\
x, y = get_batch()
while step < 100:  # loop
    logits, loss = model(x, y)
    x, y = get_batch()
    loss.backward()  # trains
    step += 1
"""
CALLED = """\
def learn(x, y):
    loss = model(x).sub(y).square().mean()
    loss.backward()  # trains
    return loss.item()

def main():
    for step in range(100):  # loop
        x, y = get_batch(step)
        total = learn(x, y)  # calls
        log(total)
"""
CLOSURE = """\
for step in range(20):  # loop
    x = get_batch()
    def closure():
        loss = model(x).square().mean()
        loss.backward()  # trains
        return loss
    optimizer.step(closure)  # calls
    print(step)
"""
ACCUMULATED = """\
while True:
    optimizer.zero_grad()
    for micro in range(4):  # loop
        rows = torch.randint(0, 64, (8,))
        x = data[rows]
        loss = model(x).mean() / 4
        loss.backward()  # trains
    optimizer.step()
"""
CHANGED = """\
for step in range(100):  # loop
    picked = []
    for row in range(8):
        picked.append(read(row))
    with torch.autocast("cpu"):
        loss = model(torch.stack(picked)).mean()
    if step:
        loss.backward()  # trains
"""
HEADED = """\
for x, y in batches():  # loop
    loss = criterion(model(x), y)
    weights = list(model.parameters())
    for weight, slope in zip(weights, torch.autograd.grad(loss, weights)):  # trains
        weight.data.add_(slope, alpha=-rate)
    right += (model(x) == y).sum()
"""
REPLAYED = """\
for step in range(100):  # loop
    action = agent.act(seen)
    seen, reward = world.step(action)
    memory.append((seen, action, reward))
    batch = random.sample(memory, 8)
    loss = agent.loss(batch)
    loss.backward()  # trains
"""


def line(source: str, mark: str) -> int:
    """The number of the line with this mark; 0 where there is none."""
    return next((n for n, text in enumerate(source.splitlines(), 1) if text.endswith(f"# {mark}")), 0)


def read(folder: Path, source: str) -> LoopBody | None:
    """What is read where the backward pass ran on the marked line, in a function that another one called."""
    file = "train.py"
    (folder / file).write_text(source)
    chain = [("/x/site-packages/torch/optim/lbfgs.py", 9, "step")]
    chain = [(file, line(source, "trains"), "inner"), *chain, (file, line(source, "calls"), "outer")]
    return read_body([Location(*one) for one in chain if one[1]], str(folder))


def told(body: LoopBody) -> dict[int, set[int]]:
    """By the first line of each feed, those of what it needs, itself apart."""
    found: dict[int, set[int]] = {}
    for one in body.feeds:
        found.setdefault(one.first, set()).update(body.feeds[place].first for place in one.needs)
    return {first: needs - {first} for first, needs in found.items()}


@pytest.mark.parametrize(
    ("source", "function", "feeds"),
    [
        (FOR, "inner", {2: set(), 3: {2}, 5: {3}}),
        (WHILE, "inner", {3: {4}, 4: set(), 5: {3}}),
        (CALLED, "outer", {7: set(), 8: {7}, 9: {8}}),
        (CLOSURE, "outer", {2: set(), 4: {2}, 5: {4}}),
        (ACCUMULATED, "inner", {4: set(), 5: {4}, 6: {5}, 7: {6}}),
        (CHANGED, "inner", {2: set(), 3: set(), 4: {2, 3}, 6: {2, 4}, 8: {6}}),
        (HEADED, "inner", {1: set(), 2: {1}, 3: set(), 4: {2, 3}}),
        (REPLAYED, "inner", {2: {3}, 3: {2}, 4: {2, 3}, 5: set(), 6: {5}, 7: {6}}),
    ],
    ids=[
        "for",
        "while",
        "a function that is called",
        "a closure",
        "accumulation",
        "a list that is filled",
        "a pass in the head of a loop",
        "a store that is drawn from",
    ],
)
def test_lines_feed_what_is_differentiated_by_the_names_they_bind(
    tmp_path: Path, source: str, function: str, feeds: dict[int, set[int]]
) -> None:
    body = read(tmp_path, source)
    assert body is not None
    assert (body.file, body.function, body.first) == ("train.py", function, line(source, "loop"))
    assert told(body) == feeds
    assert body.feeds[-1].first == max(feeds), "what trains comes last"


@pytest.mark.parametrize("source", ["loss.backward()  # trains\n", "for x in (  # trains\n", ""])
def test_without_a_loop_or_a_source_that_reads_there_is_none(tmp_path: Path, source: str) -> None:
    assert read(tmp_path, source) is None
