"""Of several loaders of one script, each treated in another way, only the one meant is changed."""

from typing import Any

import pytest

from tests.agent.trying import treated
from tests.agent.watching import PRELUDE

pytestmark = pytest.mark.slow

SCRIPT = (
    PRELUDE
    + '''
import ctypes, glob, json, os, threading
import numpy, torch
from torch.utils.data import (
    BatchSampler, DataLoader, Dataset, RandomSampler, Subset, TensorDataset, default_collate, get_worker_info
)

torch.set_num_threads(2)

class Rows(Dataset):
    """Its samples say their own index."""
    def __init__(self, length=8):
        self.length = length
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        return torch.tensor([index])

def kind(name, **of):
    made = type(name, (Rows,), of)
    globals()[name] = made
    return made

def workers_of(loader):
    return [loader.num_workers, loader.prefetch_factor, loader.persistent_workers]

# -- loader ------------------------------------------------------------------------------------------------
def factory(length, shuffle):
    return DataLoader(kind("Built")(length), batch_size=4, shuffle=shuffle)

class Mine(DataLoader):
    def __init__(self, title):
        super().__init__(kind("Named")(4), batch_size=2)
        self.title = title

def loaders():
    say(trained=workers_of(factory(16, True)), held_out=workers_of(factory(16, False)),
        other=workers_of(factory(12, True)))
    say(by_place=workers_of(DataLoader(kind("Placed")(8), 2, False, None, None, 0)),
        own_class=workers_of(Mine("mine")))
    bare = DataLoader(kind("Bare")(4), num_workers=2, timeout=9, persistent_workers=True, prefetch_factor=3)
    say(bare=workers_of(bare), bare_timeout=bare.timeout, bare_batches=len(list(bare)))
    say(refused=workers_of(DataLoader(kind("Refused")(4), num_workers=1)))

# -- batched -----------------------------------------------------------------------------------------------
def gathers():
    for name, length in (("getitems", 40), ("sampler", 41), ("subset", 42)):
        x, y = torch.randn(length, 3), torch.arange(length)
        rows = TensorDataset(x, y)
        if name == "subset":
            rows = Subset(TensorDataset(torch.cat([x, x]), torch.cat([y, y])), range(10, 10 + length))
        source = torch.Generator().manual_seed(3)
        torch.empty((), dtype=torch.int64).random_(generator=source)   # what a loader draws for its workers
        drawn = RandomSampler(rows, generator=source)
        plain = [default_collate([rows[i] for i in batch]) for batch in BatchSampler(drawn, 16, False)]
        loader = DataLoader(rows, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(3))
        batches = list(loader)
        same = all(torch.equal(a, b) and a.dtype == b.dtype and a.is_contiguous()
                   for one, other in zip(batches, plain) for a, b in zip(one, other))
        say(**{name: [same, len(batches), type(batches[0]).__name__, loader.batch_size]})
    class Own(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] + 1
    say(own_rows=next(iter(DataLoader(Own(torch.zeros(43, 1)), batch_size=2))).tolist())

# -- cache, in forked workers, in a spawned one, and in this process ---------------------------------------
class Made(Rows):
    """Each making of a sample leaves a byte in a file."""
    def __getitem__(self, index):
        with open(type(self).__name__, "ab") as marks:
            marks.write(b".")
        torch.rand(5)
        return {"x": torch.full((3, 2), index / 7), "n": numpy.arange(index), "i": index, "s": str(index),
                "odd": torch.full((2,), index).t()}

class MadeSpawned(Made):
    pass

class MadeHere(Made):
    pass

def first(samples):
    return samples[0]

def keeps():
    for cls, more in ((Made, {"num_workers": 2}), (MadeHere, {}),
                      (MadeSpawned, {"num_workers": 1, "multiprocessing_context": "spawn"})):
        loader = DataLoader(cls(12), collate_fn=first, persistent_workers="num_workers" in more, **more)
        epochs = [list(loader) for _ in range(2)]
        made = os.path.getsize(cls.__name__)
        right = all(
            torch.equal(sample["x"], torch.full((3, 2), i / 7)) and sample["i"] == i
            and sample["s"] == str(i) and sample["n"].tolist() == list(range(i))
            for samples in epochs for i, sample in enumerate(samples))
        epochs[1][3]["x"].fill_(9.0)
        again = list(loader)[3]["x"].tolist()
        say(**{cls.__name__: [right, made, again == torch.full((3, 2), 3 / 7).tolist()]})
    say(still=type(loader.dataset).__name__)

# -- ahead -------------------------------------------------------------------------------------------------
class Queued(Rows):
    def __getitem__(self, index):
        if index == self.length - 1 and self.length == 7:
            raise KeyError("seven")
        return torch.tensor([index, threading.get_ident() != threading.main_thread().ident])

def aheads():
    loader = DataLoader(Queued(6))
    two = [[one.tolist()[0] for one in loader] for _ in range(2)]
    left = iter(loader)
    next(left)
    del left
    seen = []
    try:
        for one in DataLoader(Queued(7)):
            seen.append(one.tolist()[0][0])
    except KeyError as problem:
        seen.append(repr(problem))
    say(queued=two, raised=seen, threads=threading.active_count())

# -- arrays ------------------------------------------------------------------------------------------------
class Sounds(Rows):
    pass

def as_arrays(samples):
    stacked = torch.stack(samples).numpy()
    return {"x": stacked, "names": ["a"], "both": (stacked[:, ::-1], numpy.array(["text"]))}

def sounds():
    batch = list(DataLoader(Sounds(4), batch_size=2, collate_fn=as_arrays, num_workers=1))[1]
    types = [type(one).__name__ for one in (batch["x"], batch["names"], batch["both"], batch["both"][1])]
    batch["x"][0] = 5
    say(sounds=batch["x"].tolist(), types=types, reversed=batch["both"][0].tolist())

# -- worker_threads ----------------------------------------------------------------------------------------
class Pools(Rows):
    def __getitem__(self, index):
        numpy.ones((64, 64)) @ numpy.ones((64, 64))
        folder = os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), "numpy.libs")
        counts = [torch.get_num_threads()]
        for path in glob.glob(folder + "/*openblas*"):
            for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_"):
                ask = getattr(ctypes.CDLL(path), name, None)
                counts += [ask()] if ask is not None else []
        return torch.tensor(counts)

def pools():
    inside = next(iter(DataLoader(Pools(2), num_workers=1)))[0].tolist()
    say(pools=inside, outside=torch.get_num_threads(),
        sharing=torch.multiprocessing.get_sharing_strategy())

if __name__ == "__main__":
    for part in (loaders, gathers, keeps, aheads, sounds, pools):
        part()
'''
)


def _over(dataset: str, **also: object) -> dict[str, object]:
    return {"dataset": dataset, **also}


def _loader(where: dict[str, object], **arguments: object) -> tuple[str, dict[str, object]]:
    return "loader", {"where": where, "arguments": arguments}


TREATMENTS: list[tuple[str, dict[str, object]]] = [
    _loader(
        _over("Built", length=16, batch_size=4, sampler="RandomSampler"), num_workers=2, prefetch_factor=3
    ),
    _loader(_over("Placed"), num_workers=3, persistent_workers=True),
    _loader(_over("Named"), num_workers=1),
    _loader(_over("Bare"), num_workers=0, prefetch_factor=4),
    _loader(_over("Refused"), prefetch_factor=-1),
    _loader({}, never_heard_of=1),
    ("batched", {"where": _over("TensorDataset", length=40), "how": "getitems"}),
    ("batched", {"where": _over("TensorDataset", length=41), "how": "sampler"}),
    ("batched", {"where": _over("Subset"), "how": "getitems"}),
    ("batched", {"where": {"length": 43}, "how": "getitems"}),
    ("cache", {"where": _over("Made")}),
    ("cache", {"where": _over("MadeHere")}),
    ("cache", {"where": _over("MadeSpawned")}),
    ("ahead", {"where": _over("Queued"), "depth": 2}),
    ("arrays", {"where": _over("Sounds")}),
    ("worker_threads", {}),
    ("sharing", {"strategy": "file_system"}),
]

SAID = {
    # Loaders: workers, prefetch factor, persistent workers. The first three are built on one line.
    "trained": [2, 3, False],
    "held_out": [0, None, False],  # evaluation, told apart by its sampler
    "other": [0, None, False],  # and by its length
    "by_place": [3, 2, True],  # arguments that the script gives by position
    "own_class": [1, 2, False],  # a subclass with a constructor of its own
    "bare": [0, None, False],  # what only workers take goes with the workers
    "bare_timeout": 0,
    "bare_batches": 4,
    "refused": [1, 2, False],  # built as the script says
    # Arrays come out as arrays, which can be written to.
    "sounds": [[5], [3]],
    "types": ["ndarray", "list", "tuple", "ndarray"],
    "reversed": [[2], [3]],  # a layout that tensors do not have goes as before
    # Gathered batches: the same to the last bit and of the same types, their number, type and size.
    "getitems": [True, 3, "list", 16],
    "sampler": [True, 3, "list", 16],
    "subset": [True, 3, "list", 16],
    "own_rows": [[1.0], [1.0]],  # a data set with a __getitem__ of its own is left alone
    # Cached samples: come out as they went in, made once each in three epochs, by whichever worker; and what
    # a script does to one stays out of the memory.
    "Made": [True, 12, True],
    "MadeHere": [True, 12, True],
    "MadeSpawned": [True, 12, True],
    "still": "MadeSpawned",
    # Batches from another thread: in order, an exception in its turn, and no thread is left.
    "queued": [[[index, 1] for index in range(6)]] * 2,
    "raised": [0, 1, 2, 3, 4, 5, "KeyError('seven')"],
    "threads": 1,
    "outside": 2,  # threads of the training itself; its workers have one
    "sharing": "file_system",
}
TOLD = {
    "loader": {
        "",
        "ValueError: prefetch_factor option should be non-negative",
        "this torch's DataLoader takes no never_heard_of",
    },
    "arrays": {""},
    "batched": {"", "not batches of a TensorDataset"},
    "cache": {""},
    "worker_threads": {""},
    "sharing": {""},
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[str]]]:
    return treated(tmp_path_factory.mktemp("loaders"), SCRIPT, TREATMENTS)


@pytest.mark.parametrize("name", SAID)
def test_the_script_sees_what_was_ordered_and_else_what_it_saw_before(name: str, outcome: Any) -> None:
    assert outcome[0][name] == SAID[name]


def test_every_pool_of_a_worker_has_one_thread(outcome: Any) -> None:
    assert set(outcome[0]["pools"]) == {1}


@pytest.mark.parametrize("name", TOLD)
def test_what_became_of_each_treatment_is_told(name: str, outcome: Any) -> None:
    assert set(outcome[1][name]) == TOLD[name]
