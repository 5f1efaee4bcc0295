"""What was timed on the training's own objects once it had ended, as Changes that several findings use."""

from __future__ import annotations

from dataclasses import replace

from ...analyse.reads import AGREES, reads_per_batch
from ...model.diagnosis import Change, Diagnosis, Inputs, Proposal
from ...model.fetches import HotFiles
from ...model.instruments import Calibration
from .advice import hot_files_of, key_of, room_to_keep

FILES_SEEN = 64  # names that a process writes down; with fewer, all files are known
LEAST_LEFT = 0.02  # of a cost, whatever was timed: something always remains (ours)


def rows_of(diagnosis: Diagnosis, subject: str) -> dict[str, Calibration]:
    """What was timed of one kind of work, by variant; of cold reads those with the present readers."""
    key = key_of(diagnosis)
    workers = max(1, diagnosis.loader.num_workers) if diagnosis.loader is not None else 1
    mine = [one for one in diagnosis.profile.calibrations if (one.loader, one.subject) == (key, subject)]
    far_first = sorted(mine, key=lambda one: -abs(one.depth - workers))
    return {one.variant: one for one in far_first}


def from_memory(diagnosis: Diagnosis) -> Change | None:
    """All reads answered from memory, as timed; ``None`` where not timed, or where the files do not fit."""
    for subject in ("read", "file"):
        rows = rows_of(diagnosis, subject)
        if "memory" in rows and "cold" in rows and _fit_memory(diagnosis):
            return _reading(diagnosis, rows["cold"], rows["memory"])
    return None


def packed(diagnosis: Diagnosis, system: float) -> tuple[Change, Change, Change] | None:
    """The samples' files in one, read a batch at a time, as timed: cautious, likely, hopeful.

    ``system`` is the kernel's share of the fetch's CPU; it shrinks as timed. At worst no more goes than the
    probe's own reads took; likely as much again of Python's, which opens and closes each file, too; at best
    half as much more. ``None`` where not timed.
    """
    rows = rows_of(diagnosis, "file")
    if "packed" not in rows or "cold" not in rows:
        return None
    cautious = _reading(diagnosis, rows["cold"], rows["packed"])
    if cautious is None:
        return None
    spared = max(0.0, 1 - rows["packed"].cpu_s / max(rows["cold"].cpu_s, 1e-12))
    likely, hopeful = (
        Change(storage=cautious.storage, cpu=max(LEAST_LEFT, min(cautious.cpu, 1 - times * system * spared)))
        for times in (2, 2.5)
    )
    return cautious, likely, hopeful


def _reading(diagnosis: Diagnosis, now: Calibration, then: Calibration) -> Change | None:
    """Reads cost what ``then`` says. Only where the timed reads were found to be the training's."""
    scenario, inputs = diagnosis.scenario, diagnosis.inputs
    if scenario is None or not scenario.served:
        return None
    count = reads_per_batch(now.subject, inputs)
    asleep = min(1.0, max(0.0, then.seconds - then.cpu_s) / max(now.seconds - now.cpu_s, 1e-12))
    spared_s = count * (now.cpu_s - then.cpu_s) - inputs.reading * (1 - asleep)  # which goes with the sleep
    left = 1 - spared_s / inputs.fetching
    return Change(storage=asleep, cpu=max(LEAST_LEFT, left))


def _fit_memory(diagnosis: Diagnosis) -> bool:
    """Whether all files that the loader uses fit into shared memory and leave half of all memory free."""
    sizes, hot = rows_of(diagnosis, "files").get("sizes"), hot_files_of(diagnosis)
    if sizes is None or hot is None:
        return False
    needed, shared = _bytes_of(diagnosis, sizes, hot), diagnosis.profile.machine.shm_free_bytes
    return needed <= room_to_keep(diagnosis) and (shared is None or needed <= shared)


def _bytes_of(diagnosis: Diagnosis, sizes: Calibration, hot: HotFiles) -> float:
    """Bytes of the whole data set: of its files if all are known, else as much as its samples read."""
    if hot.files < FILES_SEEN:
        return hot.files * sizes.size_bytes
    length = diagnosis.loader.dataset_length if diagnosis.loader is not None else None
    each = (diagnosis.inputs.read_bytes or 0.0) / max(1.0, diagnosis.inputs.samples)
    return length * max(each, sizes.size_bytes) if length else float("inf")


def decoding(diagnosis: Diagnosis, names: dict[str, str]) -> tuple[dict[str, Calibration], str, float]:
    """(pictures' decoding by variant, the variant that the training uses, pictures in a batch); empty where
    the decoder that ran was not timed, or does not cost what was measured. ``names``: a decoder's module to
    its variant."""
    rows, inputs, hot = rows_of(diagnosis, "picture"), diagnosis.inputs, hot_files_of(diagnosis)
    used = next((names[one] for one in (hot.decoders if hot else []) if names.get(one) in rows), "")
    if not used or not inputs.decode or rows[used].cpu_s <= 0:
        return {}, "", 0.0
    count = _pictures(inputs, rows[used].cpu_s)
    if not 1 / AGREES <= rows[used].cpu_s * count / inputs.decode <= AGREES:
        return {}, "", 0.0
    return rows, used, count


def _pictures(inputs: Inputs, each_s: float) -> float:
    """Pictures in a batch: one a sample, or several where so much time and so many opened files say so."""
    samples = max(1.0, inputs.samples)
    told = samples * max(1, round(inputs.decode / each_s / samples))
    return min(told, max(samples, inputs.opens or 0.0))


def moving(diagnosis: Diagnosis, variant: str) -> Change | None:
    """Batches moved in another way, and used in the loop in that form; ``None`` where that was not timed."""
    rows, using = rows_of(diagnosis, "moving"), rows_of(diagnosis, "using")
    scenario = diagnosis.scenario
    if scenario is None or not {"now", variant} <= rows.keys() or not {"now", variant} <= using.keys():
        return None
    measured = scenario.hand_over
    if not measured or not 1 / AGREES <= rows["now"].cpu_s / measured <= AGREES:
        return None
    cost = sum(one.compute for one in scenario.costs) / len(scenario.costs)
    more_s = using[variant].cpu_s - using["now"].cpu_s  # less, as a rule: fresh pages are dear to touch
    left = max(LEAST_LEFT, 1 + more_s / cost) if cost > 0 else 1.0
    ipc = min(1.0, rows[variant].seconds / rows["now"].seconds)
    kept = diagnosis.loader is not None and diagnosis.loader.persistent_workers
    return Change(ipc=ipc, compute=left, startup=ipc if kept else 1.0)  # no births: an epoch begins by moving


NO_LOADER = ""  # whose rows these are: the model's
NOW = "now"
LAYERS = ("product", "convolution")


def times_as_fast(
    diagnosis: Diagnosis, subjects: tuple[str, ...], way: str, measured_s: float
) -> float | None:
    """How many times as fast these subjects are together in that way.

    ``None`` where one of them was not timed that way, or where the present way does not cost about the
    ``measured_s`` seconds per step that it cost in the training: then something else was timed.
    """
    present, other = ([seconds_of(diagnosis, subject, name) for subject in subjects] for name in (NOW, way))
    pairs = [(one, two) for one, two in zip(present, other, strict=True) if one is not None]
    whole = sum(one for one, _ in pairs)
    if measured_s <= 0 or not 1 / AGREES <= whole / measured_s <= AGREES:
        return None
    left = [two for _, two in pairs if two is not None]
    return whole / sum(left) if len(left) == len(pairs) and sum(left) > 0 else None


def seconds_of(diagnosis: Diagnosis, subject: str, way: str) -> float | None:
    """Seconds per step of one subject done one way; ``None`` where not timed."""
    wanted = (NO_LOADER, subject, way)
    known = diagnosis.profile.calibrations
    return next((one.seconds for one in known if (one.loader, one.subject, one.variant) == wanted), None)


def as_timed(proposal: Proposal, change: Change) -> Proposal:
    """The remedy with what was timed in place of its range."""
    return replace(proposal, change=change, factor=None, most=None, basis="calibrated")
