"""No report contradicts its own evidence: each recorded verdict against its samples and its ledger.

Here together, so that each is diagnosed once.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.attribution import attribute
from bottleneck_doctor.analyse.causes import side_of
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.whole_run import UNEXPLAINED, ledger_of
from bottleneck_doctor.model.codec import decode_profile
from bottleneck_doctor.model.diagnosis import Diagnosis

EVERY = sorted((Path(__file__).parents[1] / "golden").glob("*/*.profile.json.gz"))
RECORDED = [path for path in EVERY if path.parent.name == "accuracy"]
ENOUGH = 50  # samples of the loop's thread
HALF = 0.5


@cache
def diagnosis(path: Path) -> Diagnosis:
    return diagnose(decode_profile(gzip.decompress(path.read_bytes())))


def seen(one: Diagnosis) -> tuple[int, int, int]:
    """Samples of the loop's thread: all, those that get no batch, and those not on a core."""
    loop = one.loop
    if loop is None or loop.thread != 0:
        return 0, 0, 0
    found = attribute(one.profile, loop)
    every = [sample.stack for sample in found.samples]
    own = sum(sample.stack.count for sample in found.own)
    total = sum(stack.count for stack in every)
    return total, own, sum(stack.count - (stack.running or 0) for stack in every)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_a_named_cause_is_where_the_samples_are(path: Path) -> None:
    """A cause on the side of the input, or of the model, has at least half of the samples that its share of
    the step says."""
    one = diagnosis(path)
    total, own, _ = seen(one)
    if total < ENOUGH or one.subject != "training" or one.verdict.bound == "inconclusive":
        return
    wait = one.wait_s / one.step_s
    if side_of(one.verdict.cause) == "input":
        assert (total - own) / total >= HALF * wait
    elif side_of(one.verdict.cause) == "model":
        assert own / total >= HALF * (1 - wait)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_a_loop_that_makes_its_batches_and_sleeps_is_not_held_up_by_the_cpu(path: Path) -> None:
    one = diagnosis(path)
    total, _, blocked = seen(one)
    alone = one.loader is None or not one.loader.num_workers
    if total < ENOUGH or not alone or one.subject != "training" or len(one.phases) > 1:
        return  # others make the batches, or the samples are also of what the verdict is not about
    if blocked >= HALF * total and side_of(one.verdict.cause) in ("input", "model"):
        assert one.verdict.bound != "cpu"


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name.partition(".")[0])
def test_every_recorded_run_sums_to_one_with_little_left(path: Path) -> None:
    one = diagnosis(path)
    ledger, whole_s = ledger_of(one), one.profile.run.duration_s
    assert sum(part.share for part in ledger) == pytest.approx(1.0)
    assert sum(part.s for part in ledger) == pytest.approx(whole_s)
    assert sum(part.s for part in ledger if part.part == UNEXPLAINED) <= 0.05 * whole_s
