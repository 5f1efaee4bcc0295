"""Cases of the findings in decode.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, Inputs, StepCost
from bottleneck_doctor.model.loops import HotFiles, Loader, Making, Payload, Repeats
from bottleneck_doctor.model.run import Machine
from tests.findings.builders import PLACE, Case, fires, inputs_of, loop_of, silent, steady_run

# decode-bound
DECODE_WORK, DECODE_COST = BatchCost(0.03), StepCost(0.0, 0.003)
PHOTOS = inputs_of(DECODE_WORK, 2, 0.015, decode=0.024, read_bytes=32 * 4e5)


def _decode_case(suffix: str, inputs: Inputs = PHOTOS, memory: int | None = None) -> Diagnosis:
    """Photos of 224 x 224 from larger files; two workers decode for 24 of 30 ms a batch."""
    base = steady_run(DECODE_WORK, DECODE_COST, workers=2, inputs=inputs)
    machine = Machine("", "", "", 2, 2.0, memory_bytes=memory)
    hot, repeats = [HotFiles("1:1", 60, 0, {suffix: 60})], [Repeats("1:1", 32, 0, 150_528.0)]
    return replace(base, profile=replace(base.profile, hot_files=hot, repeats=repeats, machine=machine))


def _augmented() -> Diagnosis:
    """The same without repeated samples: the size of a sample is known from batches."""
    base = _decode_case(".jpg")
    payload = Payload("1:1", 9, tensors=2.0, tensor_bytes=32 * 150_528.0)
    return replace(base, profile=replace(base.profile, repeats=[], payloads=[payload]))


def _one_epoch(status: int = 0) -> Diagnosis:
    """A run that went over its data once, and ended by itself."""
    base = _decode_case(".jpg", memory=512 << 30)
    facts = replace(base.profile, run=replace(base.profile.run, exit_status=status))
    return replace(base, loop=loop_of(400, 1), profile=facts)


def decode_bound() -> tuple[Case, ...]:
    return (
        fires("large JPEG files", _decode_case(".jpg"), "resize-offline decode-scaled"),
        fires("large JPEG files, augmented", _augmented(), "resize-offline"),
        fires("PNG files", _decode_case(".png"), "reencode-offline dali-pipeline"),
        fires("memory for all of them", _decode_case(".jpg", memory=512 << 30), "cache-decoded-ram"),
        fires("memory for finished samples", _decode_case(".jpg", memory=64 << 30), "-cache-decoded-ram"),
        fires("no second epoch ever comes", _one_epoch(), "resize-offline -cache-decoded-ram"),
        fires("it crashed in the first", _one_epoch(status=1), "cache-decoded-ram"),
        silent("another preparation dominates", _decode_case(".jpg", replace(PHOTOS, decode=0.005))),
        silent("the workers keep up", steady_run(BatchCost(0.002), StepCost(0.0, 0.02), 2, inputs=PHOTOS)),
    )


# augment-bound
def _augment_case(
    colour_s: float, equal: int = 0, accelerated: bool = True, own_s: float = 0.002
) -> Diagnosis:
    """Two workers, 20 ms of CPU a batch, ``colour_s`` in one transform; half of 64 samples were compared."""
    base = steady_run(BatchCost(0.02), StepCost(0.0, own_s), workers=2)
    makings = [Making("1:1", 400, transforms={"ColorJitter": colour_s, "RandomCrop": 0.0004})]
    facts = replace(base.profile, makings=makings, repeats=[Repeats("1:1", 32, equal, 6144.0)])
    return replace(base, profile=facts, host=replace(base.host, accelerated=accelerated))


def augment_bound() -> tuple[Case, ...]:
    return (
        fires("colours", _augment_case(0.015), "aug-gpu-batch"),
        silent("no accelerator", _augment_case(0.015, accelerated=False)),
        silent("samples come out the same", _augment_case(0.015, equal=32)),
        silent("decoding dominates", _augment_case(0.003)),
        silent("the workers keep up", _augment_case(0.015, own_s=0.03)),
    )


# collate-bound
OWN = Loader("1:1", "dataloader", 1, "Sentences", batch_size=128, collate="pad_lists", location=PLACE)
PICTURES = replace(OWN, dataset="Pictures", collate="default_collate")
COLLATE_WORK, COLLATE_COST = BatchCost(0.002, collate=0.01), StepCost(0.0, 0.001)
SIZE = 4e5


def _collate_case(
    work: BatchCost = COLLATE_WORK, loader: Loader = OWN, cost: StepCost = COLLATE_COST
) -> Diagnosis:
    """Two workers; padding 128 sentences takes 10 ms, the loop 1 ms."""
    inputs = inputs_of(work, 2, 0.006, samples=128.0)
    base = steady_run(work, cost, workers=2, inputs=inputs, loader=loader)
    return replace(base, profile=replace(base.profile, payloads=[Payload("1:1", 8, 2.0, SIZE)]))


def collate_bound() -> tuple[Case, ...]:
    return (
        fires("sentences are padded as lists", _collate_case(), "collate-vectorise"),
        fires("torch stacks large samples", _collate_case(BatchCost(0.008, 0.01), PICTURES), "half-inputs"),
        silent("collating is a tenth of the work", _collate_case(BatchCost(0.01, 0.001))),
        silent("rows of memory are stacked", _collate_case(BatchCost(0.001, 0.001), PICTURES)),
        silent("the loop has other things to do", _collate_case(cost=StepCost(0.0, 0.05))),
    )
