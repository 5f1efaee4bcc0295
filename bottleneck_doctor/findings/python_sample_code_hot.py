"""One line of the user's own code takes much of the CPU that batches cost.

## What it means
Samples of the threads that make batches stand in the same line again and again, and it is neither a decoder
nor an unpacker nor the collate function: JSON, regular expressions, data frames row by row, tokenising,
copying, loops over elements.

## Why it costs
Such code runs once per sample, in one thread, and again in every epoch. The same work on whole columns, or
done once before training, costs a tenth or nothing.

## How it is measured
py-spy looks at the threads that fetch, for two seconds after warm-up, and says which of them were awake. The
time of compiled code counts for the line that called it. What the line does is read from the library that it
is inside of, and from the user's source: whether it parses text, takes it apart into words, or runs in a loop
for one element after the other, or draws elements of a store at random.

## Thresholds
At least 20 samples; a line with more than 0.3 of the CPU of a batch, or, where nobody saw who slept, one
that has at least as much even if it slept whenever anything did. Removing it would gain 3 % by replay.

## When this advice is wrong
A line that hands the work to a well-written library can hardly be made faster, only given less to do or done
less often: where it neither parses nor loops, that is all that is said. Where the loop changes what it draws
from (a replay buffer), what it computes can be kept up to date. Whether a crop may come first, only the
author knows: the edges of a blur or a rotation change. Random work cannot be done in advance; what comes
before it, and draws nothing, can. What a store is (a deque takes time with its length) is not seen: only that
drawing from it takes long. Samples of two seconds miss what happens once an hour.

## Prediction
Of ten trainings whose line was written anew 0.78 to 1.02 of a batch's CPU was saved: likely 0.85 of it, at
worst half (ours); of a line with less than half of it, the same of its share. Where it is only given less to
do, from nothing to all of its share. What a parser of text finds can be kept, always: from half of the line's
share to all of it, by replay.

## References
py-spy; Python documentation, "The Python Profilers"; Hugging Face Datasets, "map" and its Arrow cache.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from ..analyse.causes import gain, is_indexing
from ..analyse.hot_lines import HotLines, LineShare, least_cpu_share
from ..analyse.inputs import making_of
from ..analyse.loop_without_loader import is_fed_back
from ..analyse.predict import WORTH
from ..analyse.verdict import sends
from ..model.code import FunctionSource, Location
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    Inputs,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.fetches import Repeats
from ..model.instruments import Stack
from ..model.report import Evidence, Fix
from ..model.run import Process
from ..source import code
from ..source.purpose import is_shrunk_later
from .parts.advice import EQUAL_SHARE, held_up, repeats_of, spread, wait_evidence
from .parts.entry import Case, Entry, given, patient, steady_steps
from .parts.lines import (
    DRAWS,
    LOOPS,
    PARSES,
    QUERIES,
    RANDOM,
    SEEN,
    STACKS,
    TEXTS,
    WORDS,
    asks_or_parses,
    called_in,
    crowd_evidence,
    crowded,
    is_drawn_later,
    is_fixed,
    line_evidence,
    lines_of,
    statement_of,
    what_it_does,
)

ID = "python-sample-code-hot"
HOT_SHARE = 0.3  # of a batch's CPU in one line [catalogue F10]
ELSEWHERE = 0.4  # of a batch's CPU in decoders, unpackers or transforms: their findings speak (ours)
COLLATES = 0.25  # of a batch's CPU in the collate function: collate-bound speaks [catalogue F11]
OUTWEIGHS = 1.5  # times its share, from which a line is not the collate function's, and speaks too (ours)
HELD = 0.8  # of the hottest line's samples pass in a line, or it is not on the way to it (ours)
HALF = 0.5
# What is spared of a line that is written anew; of all that a batch costs if the line has half of that, for
# then the rest changes, too (ours: 0.78 to 1.02 of all in ten trainings that were measured).
WRITTEN_ANEW = (HALF, 0.85, 1.0)
KEPT = (HALF, 1.0, 1.0)  # of the line's own time: what a parser of text finds can be kept, always
IMAGES = ("PIL", "cv2", "torchvision", "albumentations", "imageio", "skimage", "kornia")
OPENING_CALLS = frozenset("open imread imdecode decode_image decode_jpeg read_image".split())
CHANGED = """\
# update what the last step has changed, and keep the rest: a sum tree for priorities, sums for means"""
ROWS = """\
marks = ",".join("?" * len(indices))                                # once per batch, not per row
rows = base.execute(f"SELECT x, y FROM samples WHERE id IN ({marks})", indices).fetchall()
table = numpy.array(base.execute("SELECT x, y FROM samples").fetchall())     # or once for all: in __init__"""
RING = """\
self.states[self.place] = state; self.place = (self.place + 1) % capacity    # arrays, filled in a circle
chosen = rng.integers(filled, size=batch_size)                               # and a batch is drawn at once
return self.states[chosen], self.rewards[chosen]"""
TOKENS = """\
tokens = tokenizer(texts)["input_ids"]                              # once, before training
np.save("tokens.npy", np.concatenate(tokens)); np.save("ends.npy", np.cumsum([len(t) for t in tokens]))"""
PARSED = """\
self.columns = {name: frame[name].to_numpy() for name in used}      # once, in __init__: parse and convert
return torch.as_tensor(self.columns["x"][i])                        # per sample: one row of an array"""
WHOLE = """\
values = np.asarray(rows)                                           # not: [work(row) for row in rows]
done = work(values)                                                 # by numpy's operators, on all at once"""
PREPARED = """\
torch.save([prepare(i) for i in range(len(dataset))], "prepared.pt")     # once
self.samples = torch.load("prepared.pt", mmap=True)                      # in __init__"""
MOVE = "move the work of this line out of the loop"
COLUMNS = Proposal(
    id="columnar-numpy",
    title="parse once and keep arrays",
    fix=Fix(MOVE, PARSED),
    effort="hours",
    risk="random work stays in the loop",
    basis="bound",
)
ARRAYS = replace(COLUMNS, title="work on whole arrays instead of element by element", fix=Fix(MOVE, WHOLE))
QUERY = replace(
    COLUMNS,
    id="batched-query",
    title="ask the database once for a whole batch, or keep the table in memory",
    fix=Fix("ask for all rows of a batch at once, or for the table once", ROWS),
    risk="rows come in another order; a table in memory must fit there",
)
DRAW = replace(
    COLUMNS,
    id="ring-buffer",
    title="draw a batch from arrays at once, not its elements one by one",
    fix=Fix("a deque even walks to each element: there a list, with random.sample as now, is enough", RING),
    risk="the same seed draws other elements",
)
TOKENISE = replace(
    COLUMNS,
    id="pretokenize-offline",
    title="tokenise once, before training",
    fix=Fix(MOVE, TOKENS),
    apply="convert",
)
PREPARE = replace(
    TOKENISE,
    id="precompute-deterministic",
    title="do the work of this line once, before training",
    fix=Fix(MOVE, PREPARED),
)
SHRINK = replace(
    COLUMNS,
    id="aug-reorder",
    title="make samples smaller before this line, not after it",
    fix=Fix(
        "crop and resize first, then do what this line does",
        "x = resize(crop(x))              # first\n"
        "x = colours(blur(x))             # then what costs CPU for each pixel",
    ),
    risk="a blur or a rotation sees the edge of the crop; means and deviations are the crop's",
)
LESS = replace(
    COLUMNS,
    id="cheaper-preprocess",
    title="spend less CPU in this line, or do its work once",
    fix=Fix(
        "spare this line work",
        "# fewer pixels or tokens; a faster library; or once for all epochs, where nothing in it is random",
    ),
)
KEEP = replace(
    LESS,
    title="keep what this line computes, instead of computing it anew",
    fix=Fix("spare this line work", CHANGED),
)
# Of one that is only given less to do (ours: of what is cropped first 0.51, 0.53 and 0.96).
SPARED = {SHRINK.id: (0.25, HALF, 1.0), LESS.id: (0.0, HALF, 1.0)}


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when one of the user's lines holds much of the CPU of batches that hold the loop up."""
    scenario, inputs, loader = given(diagnosis.scenario), _inputs(diagnosis), diagnosis.loader
    if sends(scenario):
        return None
    waited = held_up(diagnosis) or scenario.crowded > 0
    picks = is_indexing(inputs, loader) and not asks_or_parses(diagnosis)
    if not waited or gain(scenario, Change(cpu=0)) < WORTH or picks:
        return None
    reads = inputs.storage + inputs.reading + inputs.network
    if diagnosis.without_loader is not None and reads >= inputs.cpu - inputs.reading:
        return None  # the line reads
    lines = lines_of(diagnosis)
    line = lines.hottest
    if line is None:
        return Abstention(
            ID, "stack samples of whoever makes the batches (py-spy, and some seconds of training)"
        )
    share = least_cpu_share(line, inputs)
    # Decoding is another finding's, where fetches are timed.
    pictures = lines.library in IMAGES and inputs.batches > 0 and loader is not None
    if share < HOT_SHARE or pictures or _spoken_for(diagnosis, share) or crowded(diagnosis):
        return None
    if gain(scenario, Change(cpu=1 - min(1.0, share))) < WORTH:
        return None
    evidence = [
        *crowd_evidence(diagnosis),
        *line_evidence(diagnosis),
        Evidence("share of a batch's CPU that this line has, at least", "line_cpu_share", share, STACKS),
        *wait_evidence(diagnosis),
    ]
    does = what_it_does(diagnosis, line.location, lines.library)
    evidence += [Evidence(SEEN[does])] if does else []
    ways = _ways(diagnosis, line.location, lines, does)
    if _is_shrunk_later(diagnosis, lines):  # it is an array, so that a loop around is not over its elements
        ways = [SHRINK, *(one for one in ways if one is not ARRAYS)]
    if not ways:
        ways = [KEEP if is_fed_back(diagnosis.profile, diagnosis.without_loader) else LESS]
    shares = {PREPARE.id: max(share, least_cpu_share(_function_of(line, lines), inputs))}
    proposals = [_proposal(one, scenario, line, shares.get(one.id, share), does) for one in ways]
    return Finding(ID, "input.preprocess", evidence, proposals, line.location)


def _function_of(line: LineShare, lines: HotLines) -> LineShare:
    """All lines of the line's function: what is done once is what the function returns."""
    place = line.location
    here = (place.file, place.function)
    same = [one for one in lines.lines if (one.location.file, one.location.function) == here]
    awake = [one.cpu_share for one in same if one.cpu_share is not None]
    known = sum(awake) if len(awake) == len(same) else None
    return LineShare(place, sum(one.share for one in same), known)


def _is_shrunk_later(diagnosis: Diagnosis, lines: HotLines) -> bool:
    """Whether a function on the way to the hottest line crops what came back from there."""
    hottest, sources = given(lines.hottest), diagnosis.profile.sources
    places = [one.location for one in lines.lines if one.share >= HELD * hottest.share]
    known = [(source, place.line) for place in places if (source := code.source_at(sources, place))]
    return any(is_shrunk_later(source, line) for source, line in known)


def _inputs(diagnosis: Diagnosis) -> Inputs:
    """A function of the user's is timed as a whole: what it takes on the CPU stands in the scenario."""
    if diagnosis.inputs.batches:
        return diagnosis.inputs
    works = given(diagnosis.scenario).works
    return Inputs(
        cpu=sum(one.cpu for one in works) / len(works), wait=sum(one.wait for one in works) / len(works)
    )


def _spoken_for(diagnosis: Diagnosis, share: float) -> bool:
    """Whether decoding, unpacking, transforms or collating takes the time; ``share`` is the line's."""
    inputs, making = diagnosis.inputs, making_of(diagnosis.profile, diagnosis.loader)
    known = max(inputs.decode, making.unpack_cpu_s, sum(making.transforms.values()))
    collates = COLLATES * inputs.cpu <= inputs.collate > share * inputs.cpu / OUTWEIGHS
    return inputs.batches > 0 and (known >= ELSEWHERE * inputs.cpu or collates)


def _ways(diagnosis: Diagnosis, place: Location, lines: HotLines, does: str) -> list[Proposal]:
    """Tokens are made once; what is parsed or looped over becomes columns; work without a random part is done
    once, as samples that came again say, or else the source of the function."""
    library = lines.library
    if library in TEXTS:
        return [TOKENISE]
    if does in (QUERIES, DRAWS):
        return [QUERY if does == QUERIES else DRAW]
    repeats = repeats_of(diagnosis)
    fixed = repeats is not None and repeats.compared and repeats.equal >= EQUAL_SHARE * repeats.compared
    unknown = not diagnosis.inputs.batches or _has_no_chance(diagnosis, place, library, does)
    untold = repeats is None or not repeats.compared or is_drawn_later(diagnosis, lines)
    fixed = fixed or (repeats is None and unknown) or (untold and is_fixed(diagnosis, lines))
    once = [PREPARE] * bool(fixed)
    if does == WORDS:
        return once or [TOKENISE]
    if does:
        return [ARRAYS if does == LOOPS else COLUMNS, *once]
    return once


def _has_no_chance(diagnosis: Diagnosis, place: Location, library: str, does: str) -> bool:
    """Whether the source shows work that gives the same each time: a picture that is opened, or a function
    that parses or loops, with nothing random in it."""
    found = statement_of(diagnosis, place)
    if found is None:
        return False
    source, statement = found
    if library in IMAGES:
        return bool(called_in(statement) & OPENING_CALLS) and RANDOM.search(ast.unparse(statement)) is None
    return bool(does) and RANDOM.search(source.text) is None


def _proposal(remedy: Proposal, scenario: Scenario, line: LineShare, share: float, does: str) -> Proposal:
    spared = SPARED.get(remedy.id, KEPT if does == PARSES else WRITTEN_ANEW)
    part = 1.0 if spared is WRITTEN_ANEW and share >= HALF else min(1.0, share)
    return replace(
        remedy.at(line.location),
        factor=spread(scenario, *(Change(cpu=1 - one * part) for one in spared)),
        basis="replay" if spared is KEPT else "bound",
    )


BELOW = ["_worker_loop (w.py:1)", "fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)"]
PARSING = [*BELOW, "Logs.__getitem__ (/data/train.py:31)", "loads (/usr/lib/python3.11/json/__init__.py:346)"]
TAKING = [*BELOW, "Logs.__getitem__ (/data/train.py:32)"]
DRAWING = [*TAKING, "sample (/usr/lib/python3.11/random.py:430)"]
DRAWN = "def __getitem__(self, n):\n    store = self.memory\n    return random.sample(store, n)\n"
ASKS = "def __getitem__(self, i):\n    row = self.base\n    return row.execute(ONE, (i,)).fetchone()\n"
SPELT = (
    "def __getitem__(self, i):\n    text = texts[i]\n    return [ids[w] for w in WORD.findall(text, {})]\n"
)
LOGS = "def __getitem__(self, index):\n    text = self.texts[index]\n    return smooth(text)\n"
SMOOTH = """\
def smooth(text):
    for place in range(1, len(text)):
        text[place] = 0.5 * (text[place] + text[place - 1])
"""


FLIPS = "def __getitem__(self, i):\n    x = {}(i)\n    x = cells(x)\n    return {}(x)\n"


def _case(
    hot: tuple[int, int | None], work: BatchCost = BatchCost(0.02), seen: int = 100, path: list[str] = PARSING  # noqa: B008
) -> Diagnosis:  # fmt: skip
    """Two workers of whose samples so many were in the hot path: (all, awake)."""
    base = patient(work, StepCost(0.0, 0.002), workers=2)
    awake = None if hot[1] is None else seen - hot[0]
    stacks = [Stack(7, "worker", "MainThread", path, *hot),
              Stack(7, "worker", "MainThread", TAKING, seen - hot[0], awake)]  # fmt: skip
    workers = [Process(1, 0, "trainer", 0.0), Process(7, 1, "worker", 0.0, loader="1:1", worker=0)]
    sources = [FunctionSource("/data/train.py", "__getitem__", 30, LOGS),
               FunctionSource("/data/train.py", "smooth", 40, SMOOTH)]  # fmt: skip
    return replace(base, profile=replace(base.profile, stacks=stacks, processes=workers, sources=sources))


def _written(text: str, path: list[str] = TAKING) -> Diagnosis:
    """The hot line is the third of such a function."""
    base = _case((90, 88), path=path)
    source = FunctionSource("/data/train.py", "__getitem__", 30, text)
    return replace(base, profile=replace(base.profile, sources=[source]))


def _flipped(first: str, last: str) -> Diagnosis:
    """Samples that came again differ; the hot line is in a function that draws nothing."""
    sick = _written(FLIPS.format(first, last), [*TAKING, "cells (/data/train.py:40)"])
    sources = [
        *sick.profile.sources,
        FunctionSource("/data/train.py", "cells", 40, "def cells(x): unique(x)"),
    ]
    repeats = [Repeats("1:1", 64, 64, 20, 6144.0)]
    return replace(sick, profile=replace(sick.profile, sources=sources, repeats=repeats))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    looping = [*TAKING, "smooth (/data/train.py:42)"]
    return (
        Case("every sample is parsed from JSON", _case((90, 88)), "fires", "columnar-numpy"),
        Case("the same, though nobody saw who slept", _case((90, None)), "fires", "columnar-numpy"),
        Case("a loop over elements", _case((90, 88), path=looping), "fires", "columnar-numpy"),
        Case("words of a text, one by one", _written(SPELT.format("0")), "fires", "precompute-deterministic"),
        Case(
            "from a random place on", _written(SPELT.format("randrange(9)")), "fires", "pretokenize-offline"
        ),
        Case(
            "cells, flipped at random", _flipped("load", "random_flip"), "fires", "precompute-deterministic"
        ),
        Case("cells of what was drawn", _flipped("thin_randomly", "flip"), "fires", "cheaper-preprocess"),
        Case("rows of a database, one by one", _written(ASKS), "fires", "batched-query"),
        Case("elements of a store, drawn at random", _written(DRAWN, DRAWING), "fires", "ring-buffer"),
        Case("a line that takes long, and no more is known", _case((90, 88), path=TAKING), "fires"),
        Case("the line sleeps", _case((90, 2), BatchCost(0.004, wait=0.03)), "silent"),
        Case("it sleeps, and nobody saw it", _case((90, None), BatchCost(0.004, wait=0.03)), "silent"),
        Case("no stacks", _case((8, 8), seen=10), "abstains"),
        Case("no loop was seen", replace(_case((90, 88)), scenario=None), "abstains"),
    )


FINDING = Entry(
    ID,
    "input.preprocess",
    examine,
    needs=(steady_steps,),
    remedies=(COLUMNS, ARRAYS, QUERY, DRAW, TOKENISE, PREPARE, SHRINK, LESS, KEEP),
)
