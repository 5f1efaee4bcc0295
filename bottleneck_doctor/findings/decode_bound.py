"""The CPU time of a batch goes into turning compressed images, audio or video into arrays.

## What it means
Decoders (Pillow, OpenCV, torchvision, soundfile, video readers) take a large part of the CPU that making a
batch costs.

## Why it costs
Decoding costs CPU for each stored pixel, even for those that a later resize throws away, and again in every
epoch. PNG and WebP cost four to six times as much as JPEG.

## How it is measured
Hooks on the decoders' entry points add up the CPU time of the fetching thread inside them. Which codec it
is, is read from the names of opened files; how large the pictures are, from bytes read and from the size of
finished samples.

## Thresholds
Decoding is 0.4 of a batch's CPU (ours), and removing it would gain 3 % by replay. Pictures are called
oversized from four times the pixels of a finished sample.

## When this advice is wrong
Pillow decodes at the first access to pixels, so other profilers show the time under resize. Decompressing
(gzip, zip) is not decoding pictures and not seen here. JPEG is lossy: never for masks and labels. Smaller
files limit later crops. Which size is enough, and whether other pixels are, only the author knows: another
decoder is not tried by `bdoc prove`.

## Prediction
Replay with decoding made cheaper by factors measured on ordinary files (one core of a server, ms per
picture). Pillow, OpenCV and simplejpeg, 500x375: 1.16, 1.35, 1.25; 1920x1080: 12.5, 11.9, 10.4, and 8.2 and
7.9 with scaled decoding. 500x375 as PNG 5.25, WebP 6.53, JPEG 1.16, raw 0.49, with 389, 59, 63 and 549 KB.
Yours will differ: ranges. DALI decodes on the CPU as well, in threads of the training's process: what as many
workers as cores bring, without moving batches.

## References
Pillow, "Image.draft"; libjpeg-turbo, scaled decoding; torchvision, "Decoding and encoding images and
videos"; NVIDIA DALI, "Pipeline"; FFCV, "Tuning guide".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import HotFiles, Payload, Repeats
from ..model.report import Evidence, Fix
from ..model.run import Machine
from .parts.advice import (
    BOOKS,
    fits_memory,
    held_up,
    one_epoch,
    payload_of,
    place_of,
    remembering,
    repeats_of,
    spread,
    wait_evidence,
)
from .parts.entry import Case, Entry, dataloader_loop, given, inputs_of, patient
from .parts.lines import hottest_place, line_evidence

ID = "decode-bound"
DECODE_SHARE = 0.4  # of a batch's CPU [catalogue F06]
SUFFIXES = {"JPEG": (".jpg", ".jpeg"), "a slow codec": (".png", ".webp", ".tif", ".tiff")}
# what is then left of the cost of decoding: cautious, likely, hopeful [catalogue F06, measured]
SWAPPED = (1.35 / 1.16, 11.9 / 12.5, 10.4 / 12.5)  # OpenCV on small photos, on large ones; simplejpeg
SCALED = (1.0, 7.9 / 10.4, 8.2 / 12.5)  # nothing on small photos; simplejpeg; Pillow
RAW_PIXELS = (1.0, 0.49 / 1.16, 0.49 / 1.16)  # where reading takes what decoding took; JPEG to raw
FAST_CODEC = (
    0.49 / 1.16,
    1.16 / 5.25,
    0.49 / 6.53,
)  # as little as from JPEG to raw; PNG to JPEG; WebP to raw
RAW_BYTES = 549 / 63  # of a file with raw pixels, over JPEG [catalogue F06, measured]
PIXEL_BYTES = {"JPEG": 63e3 / (500 * 375), "a slow codec": 389e3 / (500 * 375)}  # [catalogue F06, measured]
OVERSIZE = 4.0  # stored pixels over needed ones: twice the side [catalogue F06]
CHANNELS = 3  # elements of a finished pixel
STORED = "stored pixels over those of a finished sample, estimated"

CACHE = """\
cache = torch.empty(len(paths), 3, height, width, dtype=torch.uint8).share_memory_()
ready = torch.zeros(len(paths), dtype=torch.bool).share_memory_()          # both before workers start
def decoded(i):
    if not ready[i]: cache[i] = decode(paths[i]); ready[i] = True
    return cache[i]"""
CONVERT = """\
np.save(path.with_suffix(".npy"), np.asarray(Image.open(path).convert("RGB")))     # once per file
pixels = np.load(path.with_suffix(".npy"))                                         # in __getitem__"""
RESIZE = "image.thumbnail((2 * size, 2 * size)); image.save(target, quality=95)     # once per file"
DRAFT = 'image = Image.open(path); image.draft("RGB", (2 * size, 2 * size))'
DALI = """\
@pipeline_def(batch_size=size, num_threads=THREADS, device_id=None)   # nvidia-dali-cuda120; no GPU needed
def pictures():
    data, label = fn.readers.file(files=paths, labels=labels, random_shuffle=True, name="reader")
    image = fn.resize(fn.decoders.image(data, device="cpu"), size=side)   # "mixed": on a GPU
    return fn.crop_mirror_normalize(image, mirror=fn.random.coin_flip(), output_layout="CHW"), label
loader = DALIGenericIterator(pictures(), ["x", "y"], reader_name="reader", auto_reset=True)"""
SWAP = "image = simplejpeg.decode_jpeg(path.read_bytes())"

# remedy -> title, how it is applied, on what its effect rests, lines, risk
WAYS = {
    name: Proposal(name, title, Fix(title, snippet), apply=apply, effort="hours", risk=risk, basis=basis)
    for name, title, apply, basis, snippet, risk in (
        ("reencode-offline", "store the pictures so that they are cheap to decode", "convert", "bound",
         CONVERT, "raw pixels take nine times the bytes of JPEG: memory may no longer hold the files"),
        ("resize-offline", "store the pictures at twice the training size", "convert", "bound", RESIZE,
         "lossy, and later crops are limited to what is left"),
        ("decode-scaled", "let the JPEG decoder skip pixels that are not needed", "manual", "bound", DRAFT,
         "pixels differ slightly from those of a full decode"),
        ("decoder-swap", "try another JPEG decoder", "manual", "bound", SWAP,
         "pixels differ by a level or two; Pillow is no longer slow by default"),
        ("dali-pipeline", "decode in a DALI pipeline, in threads of its own", "manual", "bound", DALI,
         "transforms must be DALI's; pixels, and the order of samples, differ"),
        ("cache-decoded-ram", "decode each picture once and keep it in memory", "manual", "replay", CACHE,
         "pays from the second epoch on; memory for all pictures as they are decoded"),
    )
}  # fmt: skip


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when decoders take much of a batch's CPU and it holds the loop up."""
    inputs, scenario = diagnosis.inputs, given(diagnosis.scenario)
    if not held_up(diagnosis) or not inputs.decode or inputs.decode < DECODE_SHARE * inputs.cpu:
        return None
    if gain(scenario, _costing(inputs, 0.0)) < WORTH:
        return None
    codec = _codec(diagnosis)
    oversize = _oversize(diagnosis, codec)
    share = inputs.decode / inputs.cpu
    seen = f"the files are {codec}, by their names" if codec else "not known: which codec it is"
    evidence = [
        Evidence("share of a batch's CPU that decoders take", "decode_share", share, BOOKS),
        Evidence(seen),
        *([Evidence(STORED, "oversize_ratio", oversize, "bytes read")] if oversize else []),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    proposals = _proposals(diagnosis, codec, oversize or 0.0)
    return Finding(ID, "input.preprocess", evidence, proposals, hottest_place(diagnosis))


def _costing(inputs: Inputs, left: float, size: float = 1.0) -> Change:
    """Decoding costs ``left`` of what it did; files are ``size`` times as large."""
    share = min(1.0, inputs.decode / inputs.fetching)
    return Change(cpu=1 - share * (1 - left), storage=size)


def _codec(diagnosis: Diagnosis) -> str:
    """What most of the opened pictures are, by their suffixes; empty when none was seen."""
    key = given(diagnosis.loader).key
    seen = [hot.suffixes for hot in diagnosis.profile.hot_files if hot.loader == key]
    counts = {name: sum(one.get(end, 0) for one in seen for end in ends) for name, ends in SUFFIXES.items()}
    return max(counts, key=lambda name: counts[name]) if any(counts.values()) else ""


def _oversize(diagnosis: Diagnosis, codec: str) -> float | None:
    """Stored pixels over those of a finished sample, from their bytes; None where either is not known."""
    inputs = diagnosis.inputs
    payload = payload_of(diagnosis)
    element = max(1.0, payload.element_bytes) if payload is not None else 1.0  # old profiles do not know it
    finished = inputs.samples * _finished_bytes(diagnosis) / CHANNELS / element
    if not (codec and inputs.read_bytes and finished):
        return None
    return inputs.read_bytes / PIXEL_BYTES[codec] / finished


def _finished_bytes(diagnosis: Diagnosis) -> float:
    """Bytes of a sample as the training gets it; 0 where nobody looked into one."""
    repeats, payload = repeats_of(diagnosis), payload_of(diagnosis)
    if repeats is not None:
        return repeats.sample_bytes
    return payload.tensor_bytes / max(1.0, diagnosis.inputs.samples) if payload is not None else 0.0


def _kept_bytes(diagnosis: Diagnosis, codec: str) -> float:
    """What a decoded picture takes in memory, before it is made smaller; at least what a sample does."""
    inputs, finished = diagnosis.inputs, _finished_bytes(diagnosis)
    if not (codec and inputs.read_bytes and inputs.samples):
        return finished
    return max(finished, CHANNELS * inputs.read_bytes / inputs.samples / PIXEL_BYTES[codec])


def _proposals(diagnosis: Diagnosis, codec: str, oversize: float) -> list[Proposal]:
    """Decode once; store what is cheap to decode; decode fewer pixels; decode them faster."""
    needed = OVERSIZE / max(oversize, OVERSIZE)
    slow = codec == "a slow codec"
    factors = {"reencode-offline": FAST_CODEC if slow else RAW_PIXELS}
    if oversize >= OVERSIZE:  # by pixels [catalogue F06], which bytes tell to a factor of four (ours)
        factors["resize-offline"] = (min(1.0, OVERSIZE * needed), needed, needed / OVERSIZE)
        factors |= {"decode-scaled": SCALED} if codec == "JPEG" else {}
    factors |= {"decoder-swap": SWAPPED} if codec == "JPEG" else {}
    proposals = [_ranged(diagnosis, name, left, slow) for name, left in factors.items()]
    proposals += [_threaded(diagnosis)] if codec else []
    if not one_epoch(diagnosis) and fits_memory(diagnosis, _kept_bytes(diagnosis, codec)):
        inputs = diagnosis.inputs
        change = remembering(inputs, _finished_bytes(diagnosis), inputs.decode)
        cached = WAYS["cache-decoded-ram"].at(place_of(diagnosis))
        proposals.append(replace(cached, change=change))
    return proposals


def _ranged(diagnosis: Diagnosis, name: str, left: tuple[float, float, float], slow: bool) -> Proposal:
    """A cure whose effect on decoding was measured elsewhere."""
    size = RAW_BYTES if name == "reencode-offline" and not slow else 1.0
    low, likely, high = (_costing(diagnosis.inputs, one, size) for one in left)
    factor = spread(given(diagnosis.scenario), low, likely, high)
    return replace(WAYS[name].at(place_of(diagnosis)), factor=factor)


def _threaded(diagnosis: Diagnosis) -> Proposal:
    """DALI's threads: at worst nothing, likely what as many workers bring whose batches nobody moves, at best
    half of decoding as well."""
    costs = (_costing(diagnosis.inputs, one) for one in (1.0, 0.5))
    likely, high = (_in_threads(diagnosis, one) for one in costs)
    dali = WAYS["dali-pipeline"]
    snippet = dali.fix.snippet.replace("THREADS", str(_cores(diagnosis)))
    factor = spread(given(diagnosis.scenario), Change(), likely, high)
    return replace(dali.at(place_of(diagnosis), snippet), factor=factor)


def _in_threads(diagnosis: Diagnosis, change: Change) -> Change:
    return replace(change, workers=_cores(diagnosis), ipc=0.0, startup=0.0)


def _cores(diagnosis: Diagnosis) -> int:
    return max(1, round(diagnosis.host.cores / diagnosis.host.trainers))


WORK, COST = BatchCost(0.03), StepCost(0.0, 0.003)
PHOTOS = inputs_of(WORK, 2, 0.015, decode=0.024, read_bytes=32 * 4e5)


def _case(suffix: str, inputs: Inputs = PHOTOS, memory: int | None = None) -> Diagnosis:
    """Photos of 224 x 224 from larger files; two workers decode for 24 of 30 ms a batch."""
    base = patient(WORK, COST, workers=2, inputs=inputs)
    machine = Machine("", "", "", 2, 2.0, memory_bytes=memory)
    hot, repeats = [HotFiles("1:1", 60, 0, {suffix: 60})], [Repeats("1:1", 64, 32, 0, 150_528.0)]
    return replace(base, profile=replace(base.profile, hot_files=hot, repeats=repeats, machine=machine))


def _augmented() -> Diagnosis:
    """The same, seen to repeat no sample: batches say how large one is."""
    base = _case(".jpg")
    payload = Payload("1:1", 9, tensors=2.0, tensor_bytes=32 * 150_528.0)
    return replace(base, profile=replace(base.profile, repeats=[], payloads=[payload]))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("large JPEG files", _case(".jpg"), "fires", "resize-offline"),
        Case("large JPEG files, decoded in full", _case(".jpg"), "fires", "decode-scaled"),
        Case("large JPEG files, augmented", _augmented(), "fires", "resize-offline"),
        Case("pictures that another pipeline may decode", _case(".png"), "fires", "dali-pipeline"),
        Case("PNG files", _case(".png"), "fires", "reencode-offline"),
        Case("memory for all of them", _case(".jpg", memory=512 << 30), "fires", "cache-decoded-ram"),
        Case("memory for none but finished samples", _case(".jpg", memory=64 << 30), "fires"),
        Case("another preparation dominates", _case(".jpg", replace(PHOTOS, decode=0.005)), "silent"),
        Case(
            "the workers keep up", patient(BatchCost(0.002), StepCost(0.0, 0.02), 2, inputs=PHOTOS), "silent"
        ),
        Case("no fetch was timed", _case(".jpg", Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=tuple(WAYS.values()))
