"""Work per sample in Python: slow lines, indexing one by one, the same work in every epoch."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.hot_lines import HotLines, LineShare, least_cpu_share
from ..analyse.inputs import making_of
from ..analyse.predict import WORTH, gain, is_indexing
from ..analyse.shares import ALL_BUT_NOISE, LARGE_PART, MOST
from ..analyse.verdict import sends
from ..model.diagnosis import Change, Diagnosis, Finding, Inputs, Proposal, Scenario
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from ..source import code
from ..source.purpose import is_shrunk_later
from .facts import BOOKS, comes_again, held_up, in_advance, payload_of, place_of, repeats_of, wait_evidence
from .lines import (
    LOOPS,
    PARSES,
    PICKS,
    QUERIES,
    SEEN,
    STACKS,
    asks_or_parses,
    computes,
    crowd_evidence,
    crowded,
    hottest_place,
    is_drawn_later,
    is_fixed,
    line_evidence,
    lines_of,
    what_it_does,
)
from .registry import dataloader_loop, finding, given, snippet, steady_steps
from .remedies import (
    MOSTLY,
    PARTLY,
    WHOLLY,
    Code,
    each,
    fits_memory,
    keeping,
    left_of,
    loader_call,
    loader_with,
    meant,
    priced,
    remembering,
)

# python-sample-code-hot


def _way(id: str, title: str, lines: str, risk: str, text: str = "", apply: str = "manual") -> Proposal:
    fix = Fix(text or "move the work of this line out of the loop", snippet("sample_code", lines))
    return Proposal(id, title, fix, apply=apply, effort="hours", risk=risk, basis="bound")


STAYS = "random work stays in the loop"
COLUMNS = _way("columnar-numpy", "parse once and keep arrays", "PARSED", STAYS)
CELLS = replace(COLUMNS, title="take columns out of the data frame once and keep arrays")
ARRAYS = _way("columnar-numpy", "work on whole arrays instead of element by element", "WHOLE", STAYS)
PREPARE = _way("precompute-deterministic", "prepare the samples once, before training", "PREPARED",
               "prepare them anew whenever the preparation changes",
               "write the finished samples to a file once, and load them instead", "convert")  # fmt: skip
QUERY = _way("batched-query", "ask the database once for a whole batch, or keep the table in memory", "ROWS",
             "rows come in another order; a table in memory must fit there",
             "ask for all rows of a batch at once, or for the table once")  # fmt: skip
SHRINK = _way("aug-reorder", "make samples smaller before this line, not after it",
              "SHRUNK",
              "a blur or a rotation sees the edge of the crop; means and deviations are the crop's",
              "crop and resize first, then do what this line does")  # fmt: skip
LESS = _way("cheaper-preprocess", "spend less CPU in this line, or keep what it computes",
            "LESS",
            STAYS, "spare this line work")  # fmt: skip
WAYS = (COLUMNS, CELLS, ARRAYS, QUERY, PREPARE, SHRINK, LESS)
ANEW = {PARSES: COLUMNS, PICKS: CELLS, LOOPS: ARRAYS, QUERIES: QUERY}  # by what the line does


@finding("input.preprocess", *WAYS, needs=(steady_steps,))
def python_sample_code_hot(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when one of the user's lines holds much of the CPU of batches that hold the loop up."""
    scenario, inputs, loader = given(diagnosis.scenario), _inputs(diagnosis), diagnosis.loader
    waited = held_up(diagnosis) or scenario.crowded > 0
    picks = is_indexing(inputs, loader) and not asks_or_parses(diagnosis)
    if sends(scenario) or not waited or gain(scenario, Change(cpu=0)) < WORTH or picks:
        return None
    reads = inputs.storage + inputs.reading + inputs.network
    if diagnosis.without_loader is not None and reads >= inputs.cpu - inputs.reading:
        return None  # the line reads
    lines = lines_of(diagnosis)
    line = lines.hottest
    if line is None:
        return "stack samples of the code that makes the batches (py-spy, and some seconds of training)"
    share = least_cpu_share(line, inputs)
    if share < LARGE_PART or _spoken_for(diagnosis, share) or crowded(diagnosis):
        return None
    evidence = [
        *crowd_evidence(diagnosis),
        *line_evidence(diagnosis),
        Evidence("share of a batch's CPU that this line has, at least", "line_cpu_share", share, STACKS),
        *wait_evidence(diagnosis),
    ]
    does = what_it_does(diagnosis, line.location, lines.library)
    evidence += [Evidence(SEEN[does])] if does else []
    ways = _ways(diagnosis, lines, does)
    if _is_shrunk_later(diagnosis, lines):  # it is an array, so that a loop around is not over its elements
        ways = [SHRINK, *(one for one in ways if one not in (ARRAYS, LESS))]
    whole = max(share, least_cpu_share(_function_of(line, lines), inputs))
    shares = dict.fromkeys([PREPARE.id] + [CELLS.id] * (does == PICKS), whole)
    made = (_proposal(one, scenario, line, shares.get(one.id, share), does) for one in ways or [LESS])
    proposals = [in_advance(diagnosis, one) for one in made]
    return Finding("python-sample-code-hot", "input.preprocess", evidence, proposals, line.location)


def _function_of(line: LineShare, lines: HotLines) -> LineShare:
    """The samples of all lines in the line's function: preparing once saves all of it, and so do arrays where
    it takes a row out of a data frame, of which its other lines pick."""
    place = line.location
    here = (place.file, place.function)
    same = [one for one in lines.lines if (one.location.file, one.location.function) == here]
    awake = [one.cpu_share for one in same if one.cpu_share is not None]
    return LineShare(place, sum(one.share for one in same), sum(awake) if len(awake) == len(same) else None)


def _is_shrunk_later(diagnosis: Diagnosis, lines: HotLines) -> bool:
    """Whether a caller of the hottest line crops the result."""
    hottest, sources = given(lines.hottest), diagnosis.profile.sources
    places = [one.location for one in lines.lines if one.share >= ALL_BUT_NOISE * hottest.share]
    known = [(source, place.line) for place in places if (source := code.source_at(sources, place))]
    return any(is_shrunk_later(source, line) for source, line in known)


def _inputs(diagnosis: Diagnosis) -> Inputs:
    """The inputs; without timed fetches, those of the user's function as the scenario has them."""
    if diagnosis.inputs.batches:
        return diagnosis.inputs
    works = given(diagnosis.scenario).works
    return Inputs(
        cpu=sum(one.cpu for one in works) / len(works), wait=sum(one.wait for one in works) / len(works)
    )


def _spoken_for(diagnosis: Diagnosis, share: float) -> bool:
    """Whether decoding, transforms or collating takes the time; ``share`` is the line's."""
    inputs, making = diagnosis.inputs, making_of(diagnosis.profile, diagnosis.loader)
    transforms = sum(making.transforms.values()) if diagnosis.host.accelerated else 0.0
    known = max(inputs.decode, transforms)
    collates = inputs.collate > max(LARGE_PART, share) * inputs.cpu
    return inputs.batches > 0 and (known >= LARGE_PART * inputs.cpu or collates)


def _ways(diagnosis: Diagnosis, lines: HotLines, does: str) -> list[Proposal]:
    """Remedies by what the line does; work without a random part is done once, if repeated samples or the
    functions' sources show that there is none."""
    repeats = repeats_of(diagnosis)
    untold = repeats is None or not repeats.compared or is_drawn_later(diagnosis, lines)
    fixed = comes_again(diagnosis) or (repeats is None and not diagnosis.inputs.batches)
    once = [PREPARE] if fixed or (untold and is_fixed(diagnosis, lines)) else []
    anew = [ANEW[does] if does != LOOPS or computes(diagnosis, lines) else LESS] if does else []
    return anew if does == QUERIES else anew + once


def _proposal(remedy: Proposal, scenario: Scenario, line: LineShare, share: float, does: str) -> Proposal:
    """The remedy with its speedups. Where the line is half of the batch, all of the batch is written anew, as
    the rest then changes too; what a parser or a data frame returns can be kept, always."""
    lefts = PARTLY if remedy in (SHRINK, LESS) else WHOLLY if does in (PARSES, PICKS) else MOSTLY
    part = 1.0 if lefts is MOSTLY and share >= MOST else share
    remedy = replace(remedy.at(line.location), basis="replay" if lefts is WHOLLY else "bound")
    return priced(remedy, scenario, *each(cpu=left_of(part, lefts)), most=Change(cpu=1 - min(1.0, part)))


# per-sample-indexing
# CPU per row, one by one, stacking included (measured: 16, 128 and 1024 features, 4.5 to 4.6 µs a row)
ROW_S = 4.5e-6
GATHER_S = 3.0e-7  # per row in one gather (measured: 0.32, 0.60 and 1.38 µs a row, the line through these)
GATHER_S_PER_BYTE = 2.64e-10  # for each byte of the row
SAMPLER_S = 1.6e-7  # more per row where a batch sampler hands over a list of indices (measured)
FAST_TENSORS = snippet("sample_code", "FAST_TENSORS") + "\n"
METHOD = snippet("sample_code", "METHOD") + "\n"
SAMPLER = snippet("sample_code", "SAMPLER")
AS_IT_IS = "torch.utils.data.default_convert"  # can be pickled for spawned workers, as no lambda can
GATHER = Proposal(
    id="batched-getitems",
    title="take all rows of a batch in one gather",
    fix=Fix("return whole batches", METHOD + f"DataLoader(..., collate_fn={AS_IT_IS})"),
    apply="hook",
    risk="transforms must take batches; the values stay the same",
)
INDEX = Proposal(
    id="batch-sampler-index",
    title="let a batch sampler index the data set with whole batches",
    fix=Fix("hand lists of indices to the data set", SAMPLER.format(1024, 0)),
    apply="hook",
    risk="the data set must accept a list of indices, as tensors and arrays do",
)


@finding("input.indexing", GATHER, INDEX, needs=(dataloader_loop,))
def per_sample_indexing(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when fetching only indexes rows, and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    collates = loader.collate != "default_collate" and inputs.collate > MOST * inputs.cpu
    if collates or not held_up(diagnosis) or not is_indexing(inputs, loader) or asks_or_parses(diagnosis):
        return None
    payload = payload_of(diagnosis)
    if payload is None:
        return "the size of a sample: no batch was inspected"
    if payload.tensors >= MOST * inputs.samples:
        return None  # samples are kept apart
    row_s = inputs.cpu / inputs.samples
    row_bytes = (payload.tensor_bytes + payload.other_bytes) / inputs.samples
    gathered, sampled = (_change(diagnosis, scenario, row_bytes, extra) for extra in (0.0, SAMPLER_S))
    evidence = [
        Evidence("CPU time per sample, stacking included", "sample_cpu_s", row_s, BOOKS),
        Evidence("bytes of a sample", "sample_bytes", row_bytes, "inspected batches"),
        Evidence("samples in a batch", "batch_samples", inputs.samples, "hooks on fetch"),
        *wait_evidence(diagnosis),
    ]
    workers = loader.num_workers if sampled.workers is None else sampled.workers
    index = SAMPLER.format(loader.batch_size, workers)
    proposals = [
        _applied(GATHER.at(loader.location, _gather(loader, gathered)), loader, gathered, "getitems"),
        _applied(INDEX.at(loader.location, index), loader, sampled, "sampler"),
    ]
    return Finding("per-sample-indexing", "input.indexing", evidence, proposals, loader.location)


def _change(diagnosis: Diagnosis, scenario: Scenario, row_bytes: float, extra_s: float) -> Change:
    """The change that fetches with one gather, in workers or in the loop's process, whichever is faster.

    A row of a tensor data set costs what was measured, times this machine's slowness; other rows cost more.
    """
    tensors, row_s = given(diagnosis.loader).tensor_dataset, diagnosis.inputs.cpu / diagnosis.inputs.samples
    row_s = ROW_S if tensors else max(ROW_S, row_s)
    left = min(1.0, (GATHER_S + extra_s + row_bytes * GATHER_S_PER_BYTE) / row_s)
    there = Change(cpu=left, collate=left)
    here = replace(there, workers=0, startup=0.0)
    return here if scenario.workers and gain(scenario, here) > gain(scenario, there) else there


def _gather(loader: Loader, change: Change) -> str:
    changed: dict[str, object] = {"collate_fn": Code(AS_IT_IS)}
    if loader.tensor_dataset:
        changed["dataset"] = Code("FastTensors(X, Y)")
    if change.workers == 0:
        changed["num_workers"] = 0
    return (FAST_TENSORS if loader.tensor_dataset else METHOD) + loader_call(loader, **changed)


def _applied(remedy: Proposal, loader: Loader, change: Change, how: str) -> Proposal:
    """TensorDataset can gather rows automatically; for any other data set the user has to write it."""
    if not loader.tensor_dataset:
        return replace(remedy, change=change, apply="manual")
    treatments = [Treatment("batched", {"where": meant(loader), "how": how})]
    if change.workers == 0:
        treatments.append(loader_with(loader, num_workers=0))
    return replace(remedy, change=change, treatments=tuple(treatments))


# repeated-deterministic-preprocess
COMPARED_AT_LEAST = 8  # indices seen in more than one epoch (chosen)
KEEP = Proposal(
    id="cache-decoded-ram",
    title="prepare the samples once, at the start, and keep them in memory",
    fix=Fix("wrap the data set before it is given to the loader", snippet("sample_code", "ONCE")),
    apply="hook",
    risk="the start takes as long as one epoch in one process; memory for all samples",
)


@finding("input.preprocess", KEEP, PREPARE, needs=(dataloader_loop,))
def repeated_deterministic_preprocess(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when samples repeat exactly, cost CPU, and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    if not held_up(diagnosis) or loader.dataset_kind != "map" or is_indexing(inputs, loader):
        return None
    repeats, place = repeats_of(diagnosis), place_of(diagnosis)
    if repeats is None or repeats.compared < COMPARED_AT_LEAST:
        return "the same samples seen in two epochs: let the run go on into its second one"
    keep = remembering(inputs, repeats.sample_bytes, inputs.cpu)
    if not comes_again(diagnosis) or keep.cpu > MOST:
        return None
    once_s = (inputs.cpu - inputs.collate) / max(inputs.samples, 1.0) * (loader.dataset_length or 0)
    equal, compared = repeats.equal / repeats.compared, float(repeats.compared)
    known = (
        ("share of samples seen again that came out the same", "equal_share", equal, "checksums"),
        ("samples that were seen again", "compared_samples", compared, "checksums"),
        ("CPU time to prepare every sample once", "prepare_once_s", once_s or None, BOOKS),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    evidence += line_evidence(diagnosis) + wait_evidence(diagnosis)
    if fits_memory(diagnosis, repeats.sample_bytes):
        in_memory = replace(KEEP.at(place), change=keep, treatments=keeping(diagnosis))
        proposals = [in_memory, replace(PREPARE.at(place), change=keep, basis="replay")]
    else:  # on a disk, whose speed was not measured
        halfway = replace(keep, storage=1.0, network=1.0, wait=1.0)
        proposals = [priced(PREPARE.at(place), scenario, Change(), halfway, keep)]
    where = hottest_place(diagnosis)
    return Finding("repeated-deterministic-preprocess", "input.preprocess", evidence, proposals, where)
