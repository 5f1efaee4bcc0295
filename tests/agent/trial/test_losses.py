"""The first losses and batches of a run are noted as they were, and then nothing of ours is left."""

import json
import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from bottleneck_doctor.agent.trial.losses import MARGIN, checksum
from bottleneck_doctor.model.run import Losses
from tests.agent.trying import tried
from tests.agent.watching import PRELUDE, said, watched

LOSSES, SEED = 12, 5
SCRIPT = (
    PRELUDE.replace(
        "torch.manual_seed(0)\n", "import random\ndrawn = [random.random(), float(torch.rand(()))]\n"
    )
    + """
def ours():
    hooks = torch.autograd.backward, torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    return sum(hook.__code__.co_filename.endswith("hook_points.py") for hook in hooks)

def ahead(loader):
    iterator = iter(loader)
    batch = next(iterator)
    for following in iterator:
        yield batch
        batch = following
    yield batch

before = ours()
losses, looked = [], 0
for batch in DataLoader(Rows(1000), batch_size=4):  # a long look before training
    with torch.no_grad():
        model(batch)
for epoch in range(4):
    for batch in ahead(DataLoader(Rows(64), batch_size=4)):
        losses.append(float(train_on(batch)).hex())
vector = model(batch)
torch.autograd.backward([vector], [torch.ones_like(vector)])
say(losses=losses, drawn=drawn, before=before, after=ours())
"""
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Losses]:
    """What the script said of its own run, and what was noted of it."""
    seen, trial = tried(tmp_path_factory.mktemp("losses"), SCRIPT, losses=LOSSES, seed=SEED)
    (noted,) = trial.losses
    return seen, noted


def test_the_first_losses_are_noted_to_the_last_bit(trained: tuple[dict[str, Any], Losses]) -> None:
    truth, noted = trained
    assert noted.values == truth["losses"][:LOSSES]


def test_batches_are_those_that_were_trained_on_in_order(trained: tuple[dict[str, Any], Losses]) -> None:
    rows = [torch.full((4,), float(index)) for index in range(64)]
    epoch = [checksum(torch.stack(rows[place : place + 4])) for place in range(0, 64, 4)]
    assert trained[1].batches[: LOSSES + MARGIN] == (epoch * 2)[: LOSSES + MARGIN]


def test_all_passes_on_so_many_batches_are_noted(tmp_path: Path) -> None:
    script = """
for batch in DataLoader(Rows(64), batch_size=4):
    for _ in range(3):
        train_on(batch)
say()
"""
    _, trial = tried(tmp_path, PRELUDE + script, losses=4)
    assert [len(one.values) for one in trial.losses] == [12]


def test_hooks_come_off_when_enough_is_noted(trained: tuple[dict[str, Any], Losses]) -> None:
    assert (trained[0]["before"], trained[0]["after"]) == (2, 0)


def test_a_script_that_seeds_nothing_begins_with_the_trials_seed(
    trained: tuple[dict[str, Any], Losses],
) -> None:
    expected = torch.rand((), generator=torch.Generator().manual_seed(SEED))
    assert trained[0]["drawn"] == [random.Random(SEED).random(), float(expected)]


def test_a_scripts_own_seeds_win_and_ranks_differ(tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"seed": SEED}))
    script = """
import json, random
import numpy
drawn = [random.random(), float(numpy.random.rand())]
random.seed(1)
numpy.random.seed(1)
print(json.dumps({"drawn": drawn, "own": [random.random(), float(numpy.random.rand())]}))
"""
    truth = said(watched(tmp_path, script, BDOC_TRIAL=str(order), RANK="3"))

    def of(seed: int) -> list[float]:
        return [random.Random(seed).random(), float(numpy.random.RandomState(seed).rand())]

    assert truth == {"drawn": of(SEED + 3), "own": of(1)}


LABELS = torch.arange(8)


def pixels(seed: int) -> torch.Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))


def test_a_tensor_and_its_copy_in_another_layout_are_one_batch() -> None:
    square = torch.randn(4, 4)
    assert checksum((square.t(), LABELS)) == checksum((square.t().contiguous(), LABELS))


def test_the_labels_of_a_batch_are_known_apart_from_its_pixels() -> None:
    one, other = checksum((pixels(1), LABELS)), checksum((pixels(2), LABELS))
    assert one != other
    assert one >> 32 == other >> 32 != checksum((pixels(1), LABELS + 1)) >> 32


def test_what_cannot_be_read_is_nought() -> None:
    assert checksum(object()) == 0
    assert checksum(torch.empty(2, device="meta")) == 0
