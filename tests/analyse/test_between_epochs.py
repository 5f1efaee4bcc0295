"""What each epoch makes again is told from what it must make anew."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.between_epochs import MadeAnew, epoch_ends, made_anew
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.findings.parts.entry import patient
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import BatchCost, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import LoopBody
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Elapsed
from bottleneck_doctor.source.functions import read_sources
from bottleneck_doctor.source.loop_body import read_body
from tests.analyse.runs import run_of

# A sample passes through the lines marked 1, 2, …, in this order; the line marked 0 runs the backward pass.
PARSED = """\
def load(path):
    return [[float(v) for v in line.split(",")] for line in open(path)]  # 2
def train(path, epochs):
    for epoch in range(epochs):
        rows = load(path)  # 1
        for x, y in DataLoader(rows):
            loss = model(x, y)
            loss.backward()  # 0
"""
IN_HEAD = """\
class Words:
    def __init__(self, path):
        self.rows = [line.split() for line in open(path)]  # 2
for epoch in range(9):
    for x, y in DataLoader(Words("a.txt"), batch_size=4):  # 1
        model(x, y).backward()  # 0
"""
FILLED = """\
texts = open("a.txt").readlines()
for epoch in range(9):
    ids = []
    for text in texts:
        ids.append(encode(text))  # 1
    for x in ids:
        model(x).backward()  # 0
def encode(text):
    return [len(word) for word in text.split()]  # 2
"""
REBOUND = FILLED.replace("    for x in ids", "    ids = torch.tensor(ids)\n    for x in ids")
METHOD = """\
class Trainer:
    def batches(self):
        rows = self.load()  # 2
        return rows[torch.randperm(len(rows))].split(64)
    def load(self):
        return [float(line) for line in open(self.path)]  # 3
    def fit(self):
        for epoch in range(self.epochs):
            batches = self.batches()  # 1
            for x in batches:
                self.model(x).backward()  # 0
"""
LIBRARY = """\
for epoch in range(9):
    rows = np.load("rows.npy")  # 1
    for x in DataLoader(rows):
        model(x).backward()  # 0
"""
CHAINED = """\
for epoch in range(9):
    with open("a.txt") as file:
        lines = file.readlines()
    path = "a.txt"
    rows = parse(path)  # 1
    for x in DataLoader(rows):
        model(x).backward()  # 0
def parse(path):
    return [int(line) for line in open(path)]  # 2
"""
FOLDS = PARSED.replace("rows = load(path)  # 1", "model = load(path)  # 1")
IN_FUNCTION = """\
class Reviews:
    def __init__(self, rows):
        self.x = [encode(row) for row in rows]  # 3
def train_epoch(net, rows, epoch):
    data = Reviews(rows)  # 2
    for x in DataLoader(data):
        net(x).backward()  # 0
texts = open("a.txt").readlines()
for epoch in range(9):
    train_epoch(model, texts, epoch)  # 1
"""
BY_EPOCH = PARSED.replace("load(path)  # 1", "load(path + str(epoch))  # 1")
GROWING = FILLED.replace("    ids = []\n", "").replace("texts = ", "ids = []\ntexts = ")
MINED = """\
def mine(rows):
    return sorted(rows, key=lambda row: float(model(row)))  # 2
for epoch in range(9):
    hard = mine(rows)  # 1
    for x in DataLoader(hard):
        model(x).backward()  # 0
"""
NEGATIVES = """\
def negatives(pairs):
    return [(a, random.randrange(100)) for a, b in pairs]  # 2
for epoch in range(9):
    drawn = negatives(pairs)  # 1
    for x in DataLoader(drawn):
        model(x).backward()  # 0
"""
QUEUE = """\
for epoch in range(9):
    rows = queue.get()  # 1
    for x in DataLoader(rows):
        model(x).backward()  # 0
"""
CHANGED = """\
class Trainer:
    def load(self):
        return [float(line) * self.scale for line in open(self.path)]  # 2
    def fit(self):
        for epoch in range(self.epochs):
            rows = self.load()  # 1
            for x in rows:
                self.model(x).backward()  # 0
            self.scale *= 0.9
"""
IN_STEP = PARSED.replace(
    "            loss = model", "            z = load(path)  # 1\n            loss = model"
).replace("        rows = load(path)  # 1\n", "")


def _found(
    folder: Path, script: str, count: int = 50, others: int = 50, life: Elapsed | None = None
) -> MadeAnew | None:
    file = folder / "train.py"
    file.write_text(script)
    marks = {int(found[1]): number for number, line in enumerate(script.splitlines(), 1)
             if (found := re.search(r"# (\d)$", line))}  # fmt: skip
    names = _functions(script)
    path = [f"{names[marks[mark]]} ({file}:{marks[mark]})" for mark in sorted(marks) if mark]
    trained = f"{names[marks[0]]} ({file}:{marks[0]})"
    stacks = [
        Stack(1, "trainer", "MainThread", path, count),
        Stack(1, "trainer", "MainThread", [trained], others),
    ]
    base = patient(BatchCost(1e-4), StepCost(0.004, python=0.004))
    assert base.loop is not None
    chain = [Location(str(file), marks[0], names[marks[0]])]
    if names[marks[1]] != names[marks[0]]:  # the loop around the epochs calls the one that trains
        chain.append(Location(str(file), marks[1], names[marks[1]]))
    body = read_body(chain, str(folder))
    sources = read_sources(stacks, [], str(folder), list)
    return made_anew(
        replace(
            base,
            loop=replace(base.loop, body=body),
            profile=replace(base.profile, stacks=stacks, sources=sources, elapsed=[life] if life else []),
        )
    )


def _functions(script: str) -> dict[int, str]:
    """Line -> the function that it is in."""
    names, found = "<module>", {}
    for number, line in enumerate(script.splitlines(), 1):
        head = re.match(r"\s*def (\w+)", line)
        names = head[1] if head else "<module>" if line[:1].strip() and not line.startswith("def") else names
        found[number] = names
    return found


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (PARSED, "rows = load(path)"),
        (IN_HEAD, "DataLoader(Words('a.txt'), batch_size=4)"),
        (FILLED, ""),
        (REBOUND, ""),
        (METHOD, "rows = self.load()"),
        (LIBRARY, "rows = np.load('rows.npy')"),
        (CHAINED, "rows = parse(path)"),
        (IN_FUNCTION, "data = Reviews(rows)"),
    ],
)
def test_what_reads_nothing_that_an_epoch_changes(tmp_path: Path, script: str, text: str) -> None:
    found = _found(tmp_path, script)
    assert found is not None
    assert found.text == text
    assert found.share == 0.5
    assert not found.random


@pytest.mark.parametrize(
    ("script", "changes", "instead"),
    [
        (BY_EPOCH, "path + str(epoch)", "path + str(epochs)"),
        (GROWING, "    for text in", "    ids = []\n    for text in"),
        (MINED, "float(model(row))", "float(len(row))"),
        (NEGATIVES, "random.randrange(100)", "len(b)"),
        (QUEUE, "queue.get()", "queue.load()"),
        (CHANGED, "self.scale *= 0.9", "pass"),
        (FOLDS, "model(x, y)", "net(x, y)"),
        (IN_STEP, "            z = load(path)  # 1\n", ""),
        (
            IN_FUNCTION.replace("(model, texts, epoch)", "(model, mined, epoch)").replace(
                "    train_epoch", "    mined = mine(texts, model)\n    train_epoch"
            ),
            "mined, epoch",
            "texts, epoch",
        ),
    ],
)
def test_what_an_epoch_may_change_is_not_claimed(
    tmp_path: Path, script: str, changes: str, instead: str
) -> None:
    assert _found(tmp_path, script) is None
    other = script.replace(changes, instead)
    if "# 1" not in other:
        other = other.replace("        for x", "        z = load(path)  # 1\n        for x")
    assert _found(tmp_path, other) is not None


def test_an_object_that_draws_while_it_is_built_is_named_as_such(tmp_path: Path) -> None:
    found = _found(tmp_path, IN_HEAD.replace("line.split()", "random.choices(line)"))
    assert found is not None
    assert found.random
    assert found.head


def test_a_few_samples_say_nothing(tmp_path: Path) -> None:
    assert _found(tmp_path, PARSED, 10, 10) is not None
    assert _found(tmp_path, PARSED, 9, 10) is None


def test_it_takes_no_more_than_hooks_saw_pass_between_epochs(tmp_path: Path) -> None:
    found = _found(tmp_path, PARSED, life=Elapsed(1, 0.0, 10.0, training_s=9.0, between_s=1.0))
    assert found is not None
    assert found.share == 0.1


MS = 1e-3


def _stalled(seconds: float, cpu: float, between_s: float) -> Profile:
    """Twelve epochs of 25 steps of 5 ms, and so many seconds between two of them."""
    run = run_of(cpu=0.2 * MS, compute=5 * MS, steps=300, epochs=12)
    (loop,) = run.loops
    table = loop.table
    for place, (before, epoch) in enumerate(zip(table.epoch, table.epoch[1:], strict=False), 1):
        if before != epoch:
            table.wall_s[place] += seconds
            table.cpu_s[place] = (table.cpu_s[place] or 0.0) + cpu
    life = Elapsed(1, 0.0, 60.0, training_s=sum(table.wall_s) - 11 * seconds, between_s=between_s)
    outer = LoopBody("train.py", "main", 5, 30)
    loop = replace(loop, body=LoopBody("train.py", "main", 10, 20, outer=outer))
    stacks = [Stack(1, "trainer", "MainThread", [f"main (train.py:{line})"], 100) for line in (15, 25)]
    return replace(run, loops=[loop], elapsed=[life], stacks=stacks)


def test_what_passes_between_epochs_is_the_loops_own_python_and_no_model() -> None:
    run = _stalled(0.5, 0.5, 5.5)
    ends = epoch_ends(run, run.loops[0])
    assert ends.share == pytest.approx(5.5 / sum(run.loops[0].table.wall_s), rel=0.05)
    assert ends.cpu == pytest.approx(1.0, abs=0.05)
    found = diagnose(run)
    assert found.verdict.cause == "host.python"
    assert next(part.share for part in found.budget if part.part == "between epochs") > 0.7


def test_what_torch_computes_between_epochs_is_not_the_loops_python() -> None:
    run = _stalled(0.5, 0.5, 5.5)
    call = "Linear.forward (/x/site-packages/torch/nn/modules/linear.py:9)"
    evaluating = replace(run.stacks[1], frames=[*run.stacks[1].frames, call])
    assert diagnose(replace(run, stacks=[run.stacks[0], evaluating])).verdict.cause == "model.compute"
    assert diagnose(replace(run, stacks=run.stacks[:1])).verdict.cause == "model.compute", "nobody looked"


def test_it_may_sleep_there_and_hooks_have_the_last_word() -> None:
    asleep = _stalled(0.5, 0.05, 5.5)
    assert epoch_ends(asleep, asleep.loops[0]).cpu == pytest.approx(0.1, abs=0.05)
    less = _stalled(0.5, 0.5, 1.0)
    life = less.elapsed[0]
    assert epoch_ends(less, less.loops[0]).share == 1.0 / (life.training_s + 1.0)
    noise = _stalled(0.0, 0.0, 5.5)
    assert epoch_ends(noise, noise.loops[0]).share == 0.0
    unseen = replace(asleep, elapsed=[])  # rows of several steps may be long for another reason
    assert epoch_ends(unseen, unseen.loops[0]).share == 0.0


def test_a_line_met_by_samples_that_count_for_nothing_has_no_share(tmp_path: Path) -> None:
    life = Elapsed(1, 0.0, 10.0, training_s=9.0, between_s=1.0)
    assert _found(tmp_path, PARSED, count=0, life=life) is None
