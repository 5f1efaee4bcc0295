"""The ceiling: the training loop is fed from memory, and sees nothing else change."""

from collections import UserDict, namedtuple
from typing import Any

import pytest
import torch

from bottleneck_doctor.agent.trial.from_memory import BATCHES, NO_LENGTH, copied
from tests.agent.trying import treated
from tests.agent.watching import PRELUDE

SCRIPT = (
    PRELUDE
    + """
import multiprocessing
from torch.utils.data import dataloader

asked = []

class Counted(Rows):
    def __getitem__(self, index):
        asked.append(index)
        return {"x": super().__getitem__(index), "spare": 1}

class Stream(IterableDataset):
    def __iter__(self):
        asked.append(0)
        return iter(torch.arange(84.0).reshape(21, 4))

def epoch(loader, write=False):
    seen = []
    for batch in loader:
        x = batch.pop("x") if isinstance(batch, dict) else batch
        seen.append(x[0, 0].item())
        if write:
            x.mul_(0.5)
        train_on(x)
    return seen

def evaluation(loader):
    with torch.no_grad():
        return [batch["x"][0, 0].item() for batch in loader]

def main():
    kept = DataLoader(Counted(80), batch_size=4, num_workers=1, persistent_workers=True)
    held = DataLoader(Counted(8), batch_size=4)
    worked = [[epoch(kept), evaluation(held), len(multiprocessing.active_children())] for _ in range(3)]
    iterator = iter(kept)
    say(worked=worked, kind=isinstance(iterator, dataloader._BaseDataLoaderIter), length=len(iterator))

    asked.clear()
    alone = DataLoader(Counted(88), batch_size=4, shuffle=True)
    epochs = [epoch(alone, write=True) for _ in range(2)]
    say(written=epochs, asked=len(asked))

    say(streamed=[epoch(DataLoader(Stream(), batch_size=1)) for _ in range(1)])
    nobodys = []
    for batch in DataLoader(Counted(80), batch_size=4):
        nobodys.append(batch["x"][0, 0].item())
        train_on(batch["x"])
    say(nobodys=nobodys)
    say(short=[len(epoch(loader)) for loader in [DataLoader(Counted(40), batch_size=4)] for _ in range(4)])

main()
"""
)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """What the script saw, and what was told of the treatment."""
    seen, words = treated(tmp_path_factory.mktemp("replay"), SCRIPT, [("replay", {})])
    return seen, words["replay"]


def test_epochs_keep_their_length_and_all_but_training_is_as_ever(fed: tuple[dict[str, Any], Any]) -> None:
    epochs, evaluated, workers = zip(*fed[0]["worked"], strict=True)
    real = [4.0 * place for place in range(20)]
    assert epochs[0] == [*real[:BATCHES], *real[: 20 - BATCHES]]
    assert [len(one) for one in epochs] == [20] * 3
    assert {*epochs[1], *epochs[2]} == set(real[:BATCHES])
    assert (evaluated, workers) == (([0.0, 4.0],) * 3, (0,) * 3), "workers end with the first batches"
    assert (fed[0]["kind"], fed[0]["length"]) == (True, 20), "the iterator is of torch's class"
    assert fed[0]["short"] == [10] * 4, "epochs shorter than the memory are recorded over several"


def test_a_data_set_is_asked_no_more_than_the_first_batches_need(fed: tuple[dict[str, Any], Any]) -> None:
    assert fed[0]["asked"] == BATCHES * 4


def test_a_script_that_writes_into_batches_gets_them_as_they_were(fed: tuple[dict[str, Any], Any]) -> None:
    first, second = fed[0]["written"]
    real = first[:BATCHES]
    assert first[BATCHES:] + second == (real * 3)[: 6 + 22]


def test_a_stream_of_unknown_length_in_a_run_without_limit_goes_on_as_ever(
    fed: tuple[dict[str, Any], list[str]],
) -> None:
    assert fed[0]["streamed"] == [[4.0 * place for place in range(21)]]
    assert fed[1] == ["", NO_LENGTH]


def test_a_loader_that_nobody_holds_but_the_loop_is_replayed_too(fed: tuple[dict[str, Any], Any]) -> None:
    assert len(fed[0]["nobodys"]) == 20
    assert fed[0]["nobodys"][BATCHES:] == fed[0]["nobodys"][: 20 - BATCHES]


Pair = namedtuple("Pair", "x y")


class Graph:
    """A batch of a library's own class."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def first(batch: Any) -> torch.Tensor:
    """The tensor that each of the batches below begins with."""
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, Graph):
        return batch.x
    found: torch.Tensor = batch["x"] if isinstance(batch, (dict, UserDict)) else batch[0]
    return found


X = torch.arange(6.0).reshape(2, 3)
KINDS = [X, (X, 1), [X, "a"], {"x": X}, UserDict({"x": X}), Pair(X, None), Graph(X)]


@pytest.mark.parametrize("batch", KINDS, ids=lambda batch: type(batch).__name__)
def test_a_copy_is_of_the_same_kind_and_shares_no_memory(batch: Any) -> None:
    copy = copied(batch)
    assert type(copy) is type(batch)
    assert torch.equal(first(copy), X)
    assert first(copy).data_ptr() != X.data_ptr()
