"""Decoding, augmentation, collation, and batches that take unequally long."""

from __future__ import annotations

import re
from dataclasses import replace

from ..analyse.causes import gain, is_indexing
from ..analyse.inputs import fetches_of, making_of
from ..analyse.predict import WORTH
from ..model.code import Location
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Inputs, Proposal, Scenario
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from .parts.entry import Entry, dataloader_loop, given, spread
from .parts.facts import EQUAL_SHARE, one_epoch, payload_of, place_of, repeats_of
from .parts.lines import hottest_place, line_evidence
from .parts.loader_remedies import loader_with
from .parts.memory_room import COPY_S_PER_BYTE, fits_memory, remembering
from .parts.rewriting import loader_call
from .parts.waits import BOOKS, dearest, held_up, wait_evidence, waits

# decode-bound
DECODE_SHARE = 0.4  # of a batch's CPU (chosen)
SUFFIXES = {"JPEG": (".jpg", ".jpeg"), "a slow codec": (".png", ".webp", ".tif", ".tiff")}
# what is then left of the cost of decoding: cautious, likely, hopeful (measured, ms an image: 500x375 PNG
# 5.25, WebP 6.53, JPEG 1.16, BMP 0.49; 1080p JPEG 12.5, with PIL's draft 8.2)
SWAPPED = (1.35 / 1.16, 11.9 / 12.5, 10.4 / 12.5)  # OpenCV on small photos, on large ones; simplejpeg
SCALED = (1.0, 7.9 / 10.4, 8.2 / 12.5)  # nothing on small photos; simplejpeg; Pillow
RAW_PIXELS = (1.0, 0.49 / 1.16, 0.49 / 1.16)  # where reading takes what decoding took; JPEG to raw
FAST_CODEC = (
    0.49 / 1.16,
    1.16 / 5.25,
    0.49 / 6.53,
)  # as little as from JPEG to raw; PNG to JPEG; WebP to raw
RAW_BYTES = 549 / 63  # of a file with raw pixels, over JPEG (measured: kB of a 500x375 image)
PIXEL_BYTES = {"JPEG": 63e3 / (500 * 375), "a slow codec": 389e3 / (500 * 375)}  # (measured)
OVERSIZE = 4.0  # stored pixels over needed ones: twice the side (chosen)
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


def decode_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
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
    proposals = _decode_proposals(diagnosis, codec, oversize or 0.0)
    return Finding("decode-bound", "input.preprocess", evidence, proposals, hottest_place(diagnosis))


def _costing(inputs: Inputs, left: float, size: float = 1.0) -> Change:
    """The change if decoding costs ``left`` of the present CPU time and files are ``size`` times as large."""
    share = min(1.0, inputs.decode / inputs.fetching)
    return Change(cpu=1 - share * (1 - left), storage=size)


def _codec(diagnosis: Diagnosis) -> str:
    """The codec of most opened pictures, by file suffix; empty if none was opened."""
    key = given(diagnosis.loader).key
    seen = [hot.suffixes for hot in diagnosis.profile.hot_files if hot.loader == key]
    counts = {name: sum(one.get(end, 0) for one in seen for end in ends) for name, ends in SUFFIXES.items()}
    return max(counts, key=lambda name: counts[name]) if any(counts.values()) else ""


def _oversize(diagnosis: Diagnosis, codec: str) -> float | None:
    """Stored pixels over pixels of a finished sample, from their bytes; None if either is not known."""
    inputs = diagnosis.inputs
    payload = payload_of(diagnosis)
    element = max(1.0, payload.element_bytes) if payload is not None else 1.0  # old profiles do not know it
    finished = inputs.samples * _finished_bytes(diagnosis) / CHANNELS / element
    if not (codec and inputs.read_bytes and finished):
        return None
    return inputs.read_bytes / PIXEL_BYTES[codec] / finished


def _finished_bytes(diagnosis: Diagnosis) -> float:
    """Bytes of one sample in a finished batch; 0 if no batch was inspected."""
    repeats, payload = repeats_of(diagnosis), payload_of(diagnosis)
    if repeats is not None:
        return repeats.sample_bytes
    return payload.tensor_bytes / max(1.0, diagnosis.inputs.samples) if payload is not None else 0.0


def _kept_bytes(diagnosis: Diagnosis, codec: str) -> float:
    """Bytes of a decoded picture before it is resized; at least those of a finished sample."""
    inputs, finished = diagnosis.inputs, _finished_bytes(diagnosis)
    if not (codec and inputs.read_bytes and inputs.samples):
        return finished
    return max(finished, CHANNELS * inputs.read_bytes / inputs.samples / PIXEL_BYTES[codec])


def _decode_proposals(diagnosis: Diagnosis, codec: str, oversize: float) -> list[Proposal]:
    """Decode once; store what is cheap to decode; decode fewer pixels; decode them faster."""
    needed = OVERSIZE / max(oversize, OVERSIZE)
    slow = codec == "a slow codec"
    factors = {"reencode-offline": FAST_CODEC if slow else RAW_PIXELS}
    if oversize >= OVERSIZE:  # by pixels, which bytes tell to a factor of four (chosen)
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
    """A remedy whose effect on decoding was measured in other trainings."""
    size = RAW_BYTES if name == "reencode-offline" and not slow else 1.0
    low, likely, high = (_costing(diagnosis.inputs, one, size) for one in left)
    factor = spread(given(diagnosis.scenario), low, likely, high)
    return replace(WAYS[name].at(place_of(diagnosis)), factor=factor)


def _threaded(diagnosis: Diagnosis) -> Proposal:
    """DALI's threads: at worst no gain, likely that of one worker per core without any IPC, at best decoding
    also takes half as long."""
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


# augment-bound
TRANSFORM_SHARE = 0.3  # of a batch's CPU (chosen)
NAMED = 3  # transforms that a report names (chosen)
LISTED = 6  # transforms in the snippet
AUGMENT_HALF = 0.5  # of their time likely goes when what shrinks a sample comes first (chosen)
COVERED = 0.95  # of the CPU may be a fetch's, as clocks of two kinds go (chosen)
SHRINKS = re.compile(r"crop|resize|thumbnail|scale(?!d)|downsample", re.I)
CONVERTS = re.compile(r"totensor|toimage|pilto|topil|todtype|normali[sz]e|convert|compose|sequential", re.I)
ON_BATCH = """\
augment = v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(...), v2.ToDtype(torch.float32, scale=True)])
x = augment(x.to("cuda", non_blocking=True))          # in the loop, on the whole batch"""
BATCHED = Proposal(
    id="aug-gpu-batch",
    title="transform whole batches on the accelerator",
    fix=Fix("take the transforms out of the data set and apply them to the batch", ON_BATCH),
    effort="hours",
    risk="one draw for the whole batch in some libraries; the accelerator must have time for it",
    basis="bound",
)
REORDER = Proposal(
    id="aug-reorder",
    title="transform fewer pixels: crop and resize before colours and blur",
    fix=Fix(
        "put what makes a sample smaller first",
        "Compose([RandomResizedCrop(...), ColorJitter(...)])   # smaller first",
    ),
    risk="blur and noise see the edge of the crop; what can be saved depends on the sizes",
    basis="bound",
)


def augment_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when random transforms take much of a batch's CPU."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    if not held_up(diagnosis):
        return None
    transforms = making_of(diagnosis.profile, diagnosis.loader).transforms
    whole = min(sum(transforms.values()), COVERED * inputs.cpu)
    repeats = repeats_of(diagnosis)
    fixed = repeats is not None and repeats.compared and repeats.equal >= EQUAL_SHARE * repeats.compared
    if whole < TRANSFORM_SHARE * inputs.cpu or fixed:
        return None
    share = min(1.0, whole / inputs.fetching)
    if gain(scenario, Change(cpu=1 - share)) < WORTH:
        return None
    evidence = [
        Evidence("share of a batch's CPU that transforms take", "transform_share", whole / inputs.cpu,
                 "hooks on transforms"),
        *(Evidence(f"CPU time a batch in {name}", "transform_cpu_s", spent, "hooks on transforms")
          for name, spent in list(transforms.items())[:NAMED]),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]  # fmt: skip
    place = place_of(diagnosis)
    proposals = _reordered(scenario, share, transforms, place)
    if diagnosis.host.accelerated:
        half, gone = Change(cpu=1 - AUGMENT_HALF * share), Change(cpu=1 - share)
        proposals.insert(0, replace(BATCHED.at(place), factor=spread(scenario, half, gone, gone)))
    return Finding("augment-bound", "input.preprocess", evidence, proposals, place)


def _reordered(
    scenario: Scenario, share: float, transforms: dict[str, float], place: Location | None
) -> list[Proposal]:
    """The remedy of putting transforms that shrink samples first, if there are some and it pays."""
    smaller = [name for name in transforms if SHRINKS.search(name)]
    others = [name for name in transforms if not SHRINKS.search(name) and not CONVERTS.search(name)]
    whole = sum(transforms.values())
    part = share * sum(transforms[name] for name in others) / whole if whole > 0 else 0.0
    if not smaller or gain(scenario, Change(cpu=1 - part)) < WORTH:
        return []
    names = ", ".join(f"{name}(...)" for name in [*smaller, *others][:LISTED])
    factor = spread(scenario, Change(), Change(cpu=1 - AUGMENT_HALF * part), Change(cpu=1 - part))
    snippet = f"Compose([{names}])   # smaller first"
    return [replace(REORDER.at(place, snippet), factor=factor)]


# collate-bound
COLLATE_SHARE = 0.25  # of a fetch's CPU (chosen)
VECTORISED = 1.51 / 5.73  # pad_sequence over padding Python lists (measured: ms for 128 sequences)
CAUTIOUS = 0.6  # of a function of the user's is left at worst (chosen: 0 to 0.56 in three trainings)
COLLATE_HALF, QUARTER = 0.5, 0.25  # of the bytes: half precision, and one byte instead of float32
TORCHS = ("default_collate", "default_convert")
TOUCH = "in a worker this includes the first touch of shared pages, which the batch needs anyway"
PADDING = """\
def collate(batch):
    sequences, labels = zip(*batch)
    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True), torch.tensor(labels)"""
BYTES = """\
return torch.from_numpy(image), label       # uint8 from __getitem__: a quarter of float32
x = x.to(device).float().div_(255)          # in the loop, on the whole batch"""
VECTORISE = Proposal(
    id="collate-vectorise",
    title="put samples together with calls on whole tensors",
    fix=Fix("replace the loops in the collate function", PADDING),
    effort="hours",
    risk="check that padding values and types stay the same",
    basis="bound",
)
SMALLER = Proposal(
    id="half-inputs",
    title="collate smaller samples: bytes or half precision instead of float32",
    fix=Fix("return the smallest type that holds the data; convert the batch", BYTES),
    effort="hours",
    risk="the conversion moves into the loop; half precision rounds; bytes cannot shrink further",
    basis="bound",
)


def collate_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when collating is a large part of a batch's CPU and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    if not held_up(diagnosis):
        return None
    torchs = loader.collate in TORCHS
    if inputs.collate <= COLLATE_SHARE * inputs.cpu or (torchs and is_indexing(inputs, loader)):
        return None
    least = QUARTER if torchs else _copy_share(diagnosis)
    if gain(scenario, Change(collate=least)) < WORTH:
        return None
    share = inputs.collate / inputs.cpu
    evidence = [
        Evidence("share of a batch's CPU that collating takes", "collate_share", share, BOOKS),
        Evidence("CPU time to collate a batch", "collate_cpu_s", inputs.collate, "hook on collate_fn"),
        Evidence("share of that for a single copy", "copy_share", _copy_share(diagnosis), "batch bytes"),
        *([Evidence(TOUCH)] if torchs and scenario.workers else []),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    if torchs:
        sizes = Change(), Change(collate=COLLATE_HALF), Change(collate=QUARTER)
        remedy = SMALLER.at(loader.location)
    else:
        sizes = Change(collate=CAUTIOUS), Change(collate=max(least, VECTORISED)), Change(collate=least)
        loops = f"replace the loops in {loader.collate or 'the collate function'}"
        remedy = VECTORISE.at(loader.location, text=loops)
    proposal = replace(remedy, factor=spread(scenario, *sizes))
    return Finding("collate-bound", "input.collate", evidence, [proposal], loader.location)


def _copy_share(diagnosis: Diagnosis) -> float:
    """The cost of one copy of the batch as a share of collating; 0 if no batch was inspected."""
    payload = payload_of(diagnosis)
    whole = payload.tensor_bytes + payload.other_bytes if payload is not None else 0.0
    return min(1.0, whole * COPY_S_PER_BYTE / max(diagnosis.inputs.collate, 1e-12))


# batch-time-variance
VARIATION = 0.5  # of a batch's cost, standard deviation over mean (chosen)
PAYS = 1.05  # by replay (chosen)
# times the present depth: measured were 2 and 8 (measured: lognormal batches, four workers, depth 2 11.4 ms,
# 8 7.3)
DEEPER = 4
BATCHES_AT_LEAST = 32  # or their variation is a guess (chosen)
CAUSES = ("input.preprocess", "input.storage", "input.network", "input.wait")
DEEPEN = Proposal(
    id="prefetch-deeper",
    title="let each worker be several batches ahead",
    fix=Fix("deepen the buffer; the order stays", "DataLoader(..., prefetch_factor=8)"),
    apply="hook",
    risk="finished batches lie in shared memory",
)
UNORDER = Proposal(
    id="unordered-batches",
    title="take batches as they come",
    fix=Fix("give up the order of batches", "DataLoader(..., in_order=False)"),
    change=Change(in_order=False),
    apply="hook~",
    risk="runs can no longer be repeated exactly; slow samples come late in each epoch",
)


def batch_time_variance(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when batches vary, the loop waits, and order or depth is what makes it wait."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    if loader.num_workers < 2:
        return None
    if not waits(diagnosis) or inputs.variation < VARIATION:
        return None
    if inputs.batches < BATCHES_AT_LEAST:
        return Abstention(
            "batch-time-variance", f"at least {BATCHES_AT_LEAST} timed fetches in the steady window"
        )
    proposals = [
        one for one in _variance_proposals(scenario, loader) if gain(scenario, given(one.change)) >= PAYS
    ]
    if not proposals:
        return None
    table = fetches_of(diagnosis.profile, loader.key)
    evidence = [
        Evidence(
            "standard deviation of a batch's cost over its mean",
            "fetch_variation",
            inputs.variation,
            "hook on fetch",
        ),
        *(
            [Evidence("longest fetch that was timed", "fetch_longest_s", max(table.wall_s), "hook on fetch")]
            if table is not None and table.wall_s
            else []
        ),
        *wait_evidence(diagnosis),
    ]
    return Finding("batch-time-variance", dearest(diagnosis, CAUSES), evidence, proposals, loader.location)


def _variance_proposals(scenario: Scenario, loader: Loader) -> list[Proposal]:
    depth = DEEPER * scenario.prefetch
    deeper = replace(
        DEEPEN.at(loader.location, loader_call(loader, prefetch_factor=depth)),
        title=f"let each worker be {depth} batches ahead",
        change=Change(prefetch=depth),
        treatments=(loader_with(loader, prefetch_factor=depth),),
        risk=f"up to {depth * scenario.workers} finished batches lie in shared memory",
    )
    unordered = replace(
        UNORDER.at(loader.location, loader_call(loader, in_order=False)),
        treatments=(loader_with(loader, in_order=False),),
    )
    return [deeper, unordered] if scenario.in_order else [deeper]


FINDINGS = (
    Entry("input.preprocess", decode_bound, needs=(dataloader_loop,), remedies=tuple(WAYS.values())),
    Entry("input.preprocess", augment_bound, needs=(dataloader_loop,), remedies=(REORDER, BATCHED)),
    Entry("input.collate", collate_bound, needs=(dataloader_loop,), remedies=(VECTORISE, SMALLER)),
    Entry("input.wait", batch_time_variance, needs=(dataloader_loop,), remedies=(DEEPEN, UNORDER)),
)
