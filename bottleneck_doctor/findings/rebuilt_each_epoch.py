"""Before each epoch the script loads or builds again what no epoch changes.

## What it means
A statement in the loop over epochs, outside of the loop over batches, reads nothing that the training
changes: a data set that is parsed, an index, tokens, weights of a sampler. It gives the same each time.

## Why it costs
No step is trained meanwhile, and no worker helps: it is done in the loop's own thread.

## How it is measured
Hooks on the loader see what passes between epochs, stack samples divide it; without a loader the samples
alone. The source of the loop, and of the functions that were seen below the statement, tells what they read.

## Thresholds
5 % of the training's time, evaluation apart (ours); two epochs; a gain of 3 % [catalogue 2.3].

## When this advice is wrong
Data that somebody else changes while the training goes on. What draws at random is only named where an
object is built, and then said: built once, it would be the same in each epoch. What cannot be proven from the
source, such as what calls the model or takes from a queue, is not named at all.

## Prediction
The training's time without that statement but for the first time: all epochs that were seen, or, of a run
that was cut short, all. A fifth less at the low end (ours), for the first epoch's share of a short training.

## References
Compilers know it as loop-invariant code motion.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.between_epochs import MadeAnew, made_anew
from ..analyse.predict import WORTH, relieved
from ..model.code import FunctionSource
from ..model.diagnosis import Abstention, BatchCost, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Stack
from ..model.loops import Epochs, LoopBody
from ..model.report import Evidence, Fix
from .parts.entry import Case, Entry, given, loader_loop, patient
from .parts.lines import LONGEST_QUOTE, STACKS, named

SOURCE = "hooks on the loader, stack samples"
ID, CAUSE = "rebuilt-each-epoch", "host.python"
SHARE = 0.05  # of the training's time (ours)
LEAST = 0.8  # of it is gone at the low end (ours)
ONCE = """\
data = load(path)                      # once, before the first epoch
for epoch in range(epochs):
    train(data)"""
BUILD_ONCE = Proposal(
    id="build-once",
    title="build once, before the loop, what each of its turns builds again",
    fix=Fix("it reads nothing that an epoch changes", ONCE),
    basis="amdahl",
)
DRAWN = "what it draws at random is then the same in each epoch"


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a statement that each epoch repeats to the same effect takes a visible part."""
    found = made_anew(diagnosis)
    if found is None or found.share < SHARE:
        return None
    epochs = len(given(diagnosis.loop).epochs.t)
    if epochs == 1:
        return None
    again = 1.0 if diagnosis.profile.run.stopped_by or not epochs else 1 - 1 / epochs
    likely = relieved(1 / (1 - min(0.999, found.share * again)))
    if likely < WORTH:
        return None
    low = 1 / (1 - min(0.999, LEAST * found.share * again))
    turn = "epoch" if epochs else "turn of the loop around"  # without a loader nobody knows what an epoch is
    text = f"share of the training's time in what each {turn} makes again"
    evidence = [
        Evidence(text, "rebuilt_share", found.share, SOURCE if epochs else STACKS),
        Evidence(f"it reads nothing that {'an' if epochs else 'a'} {turn} changes"),
    ]
    evidence += [Evidence("it draws at random, too")] if found.random else []
    proposal = replace(
        BUILD_ONCE.at(found.place, _lines(found), f"make it before the loop in {named(found.before)}"),
        factor=(low, likely, relieved(1 / (1 - min(0.999, found.share)))),
        risk=DRAWN if found.random else "",
    )
    verdict = diagnosis.verdict.cause  # a loop without a loader: what is built may be its batches
    cause = verdict if diagnosis.without_loader is not None and verdict.startswith("input.") else CAUSE
    return Finding(ID, cause, evidence, [proposal], found.place)


def _lines(found: MadeAnew) -> str:
    """The user's own statement, where it is short."""
    if not found.text or len(found.text) > LONGEST_QUOTE or "\n" in found.text:
        return ""
    made = f"batches = {found.text}" if found.head else found.text
    return f"{made}      # once, before the loop"


LOOP = """\
for epoch in range(9):
    words = Words(path)
    pairs = mined(model, words)
    for x, y in DataLoader(words):
        loss = cross_entropy(model(x), y)
        loss.backward()
"""
INIT = """\
    def __init__(self, path):
        self.rows = [line.split() for line in open(path)]
"""
MINED = """\
def mined(model, words):
    return sorted(words.rows, key=len)
"""
BODY = LoopBody("train.py", "<module>", 8, 10, outer=LoopBody("train.py", "<module>", 5, 10))


def _case(line: int = 6, below: str = "__init__ (words.py:5)", init: str = INIT) -> Diagnosis:
    """Half of the samples are below a line of the loop over epochs."""
    base = patient(BatchCost(1e-4), StepCost(0.004, python=0.004))
    stacks = [
        Stack(1, "trainer", "MainThread", [f"<module> (train.py:{line})", below], 100),
        Stack(1, "trainer", "MainThread", ["<module> (train.py:10)"], 100),
    ]
    sources = [
        FunctionSource("train.py", "<module>", 5, LOOP),
        FunctionSource("words.py", "__init__", 4, init),
        FunctionSource("mined.py", "mined", 1, MINED),
    ]
    loop = replace(given(base.loop), body=BODY, epochs=Epochs([0.0] * 9, [0.0] * 9, [0.0] * 9, [44] * 9))
    return replace(base, loop=loop, profile=replace(base.profile, stacks=stacks, sources=sources))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    drawn = INIT.replace("line.split()", "random.choices(line)")
    once = replace(_case(), loop=replace(given(_case().loop), epochs=Epochs([0.0], [0.0], [0.0], [400])))
    return (
        Case("a data set is parsed in each epoch", _case(), "fires", "build-once"),
        Case("it draws at random", _case(init=drawn), "fires", "build-once"),
        Case("it calls the model", _case(7, "mined (mined.py:2)"), "silent"),
        Case("a single epoch", once, "silent"),
        Case("no loop was seen", replace(_case(), loop=None), "abstains"),
    )


FINDING = Entry(ID, CAUSE, examine, needs=(loader_loop,), remedies=(BUILD_ONCE,))
