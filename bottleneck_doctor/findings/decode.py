"""Decoding, augmentation and collation."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.inputs import making_of
from ..analyse.predict import is_indexing
from ..analyse.shares import ALL_BUT_NOISE, LARGE_PART, MOST
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .facts import (
    BOOKS,
    comes_again,
    device_of,
    held_up,
    hot_files_of,
    in_advance,
    one_epoch,
    payload_of,
    place_of,
    repeats_of,
    wait_evidence,
    waits,
)
from .lines import hottest_place, line_evidence
from .registry import DEVICES, Reach, dataloader_loop, finding, given, snippet
from .remedies import (
    COPY_S_PER_BYTE,
    MOSTLY,
    SMALLER,
    WHOLLY,
    each,
    fits_memory,
    left_of,
    priced,
    remembering,
)

# decode-bound
SUFFIXES = {"JPEG": (".jpg", ".jpeg"), "a slow codec": (".png", ".webp", ".tif", ".tiff")}
# what is then left of the cost of decoding: cautious, likely, hopeful (measured, ms an image: 500x375 PNG
# 5.25, WebP 6.53, JPEG 1.16, BMP 0.49; 1080p JPEG 12.5, with PIL's draft 8.2)
SWAPPED = (1.35 / 1.16, 11.9 / 12.5, 10.4 / 12.5)  # OpenCV on small photos, on large ones; simplejpeg
SCALED = (1.0, 7.9 / 10.4, 8.2 / 12.5)  # nothing on small photos; simplejpeg; Pillow
RAW_PIXELS = (1.0, 0.49 / 1.16, 0.49 / 1.16)  # where reading takes what decoding took; JPEG to raw
FAST_CODEC = (0.49 / 1.16, 1.16 / 5.25, 0.49 / 6.53)  # as from JPEG to raw; PNG to JPEG; WebP to raw
RAW_BYTES = 549 / 63  # of a file with raw pixels, over JPEG (measured: kB of a 500x375 image)
PIXEL_BYTES = {"JPEG": 63e3 / (500 * 375), "a slow codec": 389e3 / (500 * 375)}  # (measured)
OVERSIZE = 4.0  # stored pixels over needed ones: twice the side, which crops need at most (chosen)
CHANNELS = 3  # elements of a finished pixel
STORED = "stored pixels over those of a finished sample, estimated"
ON_GPU = (("device_id=None", "device_id=0"), ('device="cpu")  # "mixed": on a GPU', 'device="mixed")'))
NVJPEG = "; it takes time of the GPU"
# remedy -> title, how it is applied, on what its effect rests, lines, risk
WAYS = {
    name: Proposal(name, title, Fix(title, snippet("decode", lines)), apply=apply, effort="hours", risk=risk,
                   basis=basis)
    for name, title, apply, basis, lines, risk in (
        ("reencode-offline", "store the pictures so that they are cheap to decode", "convert", "bound",
         "CONVERT", "raw pixels take nine times the bytes of JPEG: memory may no longer hold the files"),
        ("resize-offline", "store the pictures at twice the training size", "convert", "bound", "RESIZE",
         "lossy, and later crops are limited to what is left"),
        ("decode-scaled", "let the JPEG decoder skip pixels that are not needed", "manual", "bound", "DRAFT",
         "pixels differ slightly from those of a full decode"),
        ("decoder-swap", "try another JPEG decoder", "manual", "bound", "SWAP",
         "pixels differ by a level or two; Pillow is no longer slow by default"),
        ("dali-pipeline", "decode in a DALI pipeline, in threads of its own", "manual", "bound", "DALI",
         "transforms must be DALI's; pixels, and the order of samples, differ"),
        ("cache-decoded-ram", "decode each picture once and keep it in memory", "manual", "replay", "CACHE",
         "pays from the second epoch on; memory for all pictures as they are decoded"),
    )
}  # fmt: skip


@finding("input.preprocess", *WAYS.values(), needs=(dataloader_loop,))
def decode_bound(diagnosis: Diagnosis) -> Finding | None:
    """Fires when decoders take much of a batch's CPU and it holds the loop up."""
    inputs = diagnosis.inputs
    if not held_up(diagnosis) or not inputs.decode or inputs.decode < LARGE_PART * inputs.cpu:
        return None
    codec = _codec(diagnosis)
    oversize = _oversize(diagnosis, codec)
    share = inputs.decode / inputs.cpu
    known = f"the files are {codec}, by their names" if codec else "not known: which codec it is"
    evidence = [
        Evidence("share of a batch's CPU that decoders take", "decode_share", share, BOOKS),
        Evidence(known),
        *([Evidence(STORED, "oversize_ratio", oversize, "bytes read")] if oversize else []),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    proposals = _decode_proposals(diagnosis, codec, oversize)
    return Finding("decode-bound", "input.preprocess", evidence, proposals, hottest_place(diagnosis))


def _codec(diagnosis: Diagnosis) -> str:
    """The codec of most opened pictures, by file suffix; empty if none was opened."""
    hot = hot_files_of(diagnosis)
    seen = hot.suffixes if hot is not None else {}
    counts = {name: sum(seen.get(end, 0) for end in ends) for name, ends in SUFFIXES.items()}
    return max(counts, key=lambda name: counts[name]) if any(counts.values()) else ""


def _oversize(diagnosis: Diagnosis, codec: str) -> float:
    """Stored pixels over pixels of a finished sample, from their bytes; 0 if either is not known."""
    inputs, payload = diagnosis.inputs, payload_of(diagnosis)
    element = max(1.0, payload.element_bytes) if payload is not None else 1.0  # old profiles do not know it
    finished = inputs.samples * _finished_bytes(diagnosis) / CHANNELS / element
    if not (codec and inputs.read_bytes and finished):
        return 0.0
    return inputs.read_bytes / PIXEL_BYTES[codec] / finished


def _finished_bytes(diagnosis: Diagnosis) -> float:
    """Bytes of one sample in a finished batch; 0 if no batch was inspected."""
    repeats, payload = repeats_of(diagnosis), payload_of(diagnosis)
    if repeats is not None:
        return repeats.sample_bytes
    return payload.tensor_bytes / max(1.0, diagnosis.inputs.samples) if payload is not None else 0.0


def _decode_proposals(diagnosis: Diagnosis, codec: str, oversize: float) -> list[Proposal]:
    """Decode once; store what is cheap to decode; decode fewer pixels; decode them faster; in threads."""
    inputs, scenario, place = diagnosis.inputs, given(diagnosis.scenario), place_of(diagnosis)
    needed, decoding = OVERSIZE / max(oversize, OVERSIZE), inputs.decode / inputs.fetching
    jpeg = codec == "JPEG"
    lefts = {"reencode-offline": RAW_PIXELS if jpeg or not codec else FAST_CODEC}
    if oversize >= OVERSIZE:  # by pixels, which bytes tell to a factor of four
        lefts["resize-offline"] = (min(1.0, OVERSIZE * needed), needed, needed / OVERSIZE)
        lefts |= {"decode-scaled": SCALED} if jpeg else {}
    lefts |= {"decoder-swap": SWAPPED} if jpeg else {}
    proposals = []
    for name, left in lefts.items():
        grown = RAW_BYTES if left is RAW_PIXELS else 1.0  # the files, and the reads with them
        changes = each(cpu=left_of(decoding, left), storage=(grown, grown, grown))
        proposals.append(priced(in_advance(diagnosis, WAYS[name]).at(place), scenario, *changes))
    if codec:
        # at worst no gain, likely that of one worker per core without any IPC; decoding in half the time
        cores = max(1, round(diagnosis.host.cores / diagnosis.host.trainers))
        threads = Change(workers=cores, ipc=0.0, startup=0.0)
        snippet = WAYS["dali-pipeline"].fix.snippet.replace("THREADS", str(cores))
        changes = [Change(), threads, replace(threads, cpu=1 - decoding / 2)]
        dali = WAYS["dali-pipeline"]
        view = device_of(diagnosis)
        nvidia = view is not None and view.facts.capability is not None
        if jpeg and nvidia and waits(diagnosis) and scenario.workers:  # it has the time, and nvJPEG
            for old, new in ON_GPU:
                snippet = snippet.replace(old, new)
            changes = [replace(threads, cpu=left) for left in left_of(decoding, MOSTLY)]
            text = "decode on the GPU: DALI with nvJPEG"
            dali = replace(dali, title=text, risk=dali.risk + NVJPEG, fix=replace(dali.fix, text=text))
        proposals.append(priced(dali.at(place, snippet), scenario, *changes))
    finished, kept = _finished_bytes(diagnosis), 0.0
    if codec and inputs.read_bytes and inputs.samples:  # before it is resized
        kept = CHANNELS * inputs.read_bytes / inputs.samples / PIXEL_BYTES[codec]
    if not one_epoch(diagnosis) and fits_memory(diagnosis, max(finished, kept)):
        change = remembering(inputs, finished, inputs.decode)
        way = WAYS["cache-decoded-ram"].at(place)
        whole = kept * (given(diagnosis.loader).dataset_length or 0) / 1e9
        size = f", some {whole:.1g} GB by the files' sizes, to a factor of four" if kept else ""
        proposals.append(replace(way, change=change, risk=way.risk + size))
    return proposals


# augment-bound
NAMED = 3  # transforms that a report names
ON_BATCH = snippet("decode", "ON_BATCH")
BATCHED = Proposal(
    id="aug-gpu-batch",
    title="transform whole batches on the accelerator",
    fix=Fix("take the transforms out of the data set and apply them to the batch", ON_BATCH),
    effort="hours",
    risk="one draw for the whole batch in some libraries; the accelerator must have time for it",
    basis="bound",
)


BESIDE = Reach(DEVICES[1:], "without an accelerator the transforms would only move to the loop's own cores")


@finding("input.preprocess", BATCHED, needs=(dataloader_loop,), reach=BESIDE)
def augment_bound(diagnosis: Diagnosis) -> Finding | None:
    """Fires when random transforms that an accelerator could do take much of a batch's CPU."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    transforms = making_of(diagnosis.profile, diagnosis.loader).transforms
    whole = min(sum(transforms.values()), ALL_BUT_NOISE * inputs.cpu)  # the clocks are of two kinds
    if not diagnosis.host.accelerated or not held_up(diagnosis):
        return None
    if whole < LARGE_PART * inputs.cpu or comes_again(diagnosis):
        return None
    share, source = whole / inputs.cpu, "hooks on transforms"
    evidence = [Evidence("share of a batch's CPU that transforms take", "transform_share", share, source)]
    for name, spent in list(transforms.items())[:NAMED]:
        evidence.append(Evidence(f"CPU time a batch in {name}", "transform_cpu_s", spent, source))
    evidence += line_evidence(diagnosis) + wait_evidence(diagnosis)
    place, share = place_of(diagnosis), whole / inputs.fetching
    proposals = [priced(BATCHED.at(place), scenario, *each(cpu=left_of(share, WHOLLY)))]
    return Finding("augment-bound", "input.preprocess", evidence, proposals, place)


# collate-bound
VECTORISED = 1.51 / 5.73  # pad_sequence over padding Python lists (measured: ms for 128 sequences)
SMALLER_BYTES = (1.0, 0.5, 0.25)  # as they are, half precision, one byte instead of float32
TORCHS = ("default_collate", "default_convert")
TOUCH = "in a worker this includes the first touch of shared pages, which the batch needs anyway"
VECTORISE = Proposal(
    id="collate-vectorise",
    title="put samples together with calls on whole tensors",
    fix=Fix("replace the loops in the collate function", snippet("decode", "PADDING")),
    effort="hours",
    risk="check that padding values and types stay the same",
    basis="bound",
)


@finding("input.collate", VECTORISE, SMALLER, needs=(dataloader_loop,))
def collate_bound(diagnosis: Diagnosis) -> Finding | None:
    """Fires when collating is a large part of a batch's CPU and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    torchs = loader.collate in TORCHS
    if not held_up(diagnosis) or inputs.collate <= LARGE_PART * inputs.cpu:
        return None
    if torchs and is_indexing(inputs, loader):
        return None
    share, payload = inputs.collate / inputs.cpu, payload_of(diagnosis)
    whole = payload.tensor_bytes + payload.other_bytes if payload is not None else 0.0
    least = min(1.0, whole * COPY_S_PER_BYTE / max(inputs.collate, 1e-12))
    evidence = [
        Evidence("share of a batch's CPU that collating takes", "collate_share", share, BOOKS),
        Evidence("CPU time to collate a batch", "collate_cpu_s", inputs.collate, "hook on collate_fn"),
        Evidence("share of that for a single copy", "copy_share", least, "batch bytes"),
        *([Evidence(TOUCH)] if torchs and scenario.workers else []),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    if torchs:
        lefts, remedy = SMALLER_BYTES, SMALLER.at(loader.location)
    else:
        lefts = (max(least, MOST), max(least, VECTORISED), least)
        loops = f"replace the loops in {loader.collate or 'the collate function'}"
        remedy = VECTORISE.at(loader.location, text=loops)
    proposal = priced(remedy, scenario, *each(collate=lefts))
    return Finding("collate-bound", "input.collate", evidence, [proposal], loader.location)
