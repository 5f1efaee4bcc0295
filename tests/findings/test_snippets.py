"""What findings tell users to write does what it says."""

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset

from bottleneck_doctor.findings import cpu_compute, decode, sample_code, workers
from bottleneck_doctor.findings import input as fetching


def run(snippet: str, **names: Any) -> dict[str, Any]:
    """What the lines leave behind, in a script that has these names."""
    names |= {"torch": torch, "DataLoader": DataLoader}
    exec(snippet.replace("...", "data"), names)
    return names


def test_a_thread_that_works_ahead_hands_on_batches_and_what_it_fails_with() -> None:
    def batches() -> Iterator[Any]:
        yield from (None, 0, [])
        raise OSError("gone")

    ahead = run(fetching.THREAD)["ahead"](batches(), depth=1)
    assert list(itertools.islice(ahead, 3)) == [None, 0, []]
    with pytest.raises(OSError, match="gone"):
        next(ahead)
    assert list(run(fetching.THREAD)["ahead"](iter("abc"))) == ["a", "b", "c"]


def test_indices_are_drawn_by_weight() -> None:
    weights = torch.tensor([0.0, 1.0, 3.0] * 1000)
    drawn = list(run(fetching.DRAWN)["Drawn"](weights))
    assert len(drawn) == 3000
    assert all(one % 3 for one in drawn)


def test_batches_are_collated_gathered_and_packed() -> None:
    arrays = [(np.full(2, i, np.float32), np.int64(i)) for i in range(4)]
    collate = run(fetching.TO_TENSORS, data=arrays)["collate"]
    x, y = next(iter(DataLoader(arrays, 4, collate_fn=collate)))  # type: ignore[arg-type]
    assert (x.shape, y.tolist()) == ((4, 2), [0, 1, 2, 3])
    rows = [torch.ones(2), torch.ones(3)]
    pack = run(fetching.PACK.fix.snippet, LOADER=[(torch.cat(rows), [2, 3])])
    assert [len(one) for one in pack["parts"]] == [2, 3]
    assert pack["collate"](rows)[1] == [2, 3]
    X, y = torch.arange(8.0).reshape(4, 2), torch.arange(4)
    fast = run(sample_code.FAST_TENSORS)["FastTensors"](X, y)
    whole = next(iter(DataLoader(fast, 4, collate_fn=run(f"collate = {sample_code.AS_IT_IS}")["collate"])))
    assert torch.equal(whole[0], X)
    run(sample_code.SAMPLER.format(2, 0), DATASET=fast)


def test_an_iterable_data_set_is_shared_out_among_workers() -> None:
    found: dict[str, Any] = {"samples": lambda _: iter(range(10))}
    found["__iter__"] = run(workers.SHARD.fix.snippet)["__iter__"]
    Stream = type("Stream", (IterableDataset,), found)
    assert [one.item() for one in DataLoader(Stream(), 1)] == list(range(10))
    assert sorted(one.item() for one in DataLoader(Stream(), 1, num_workers=2)) == list(range(10))


def test_groups_of_an_optimizer_and_sequences_of_like_lengths_are_put_together() -> None:
    tensors = [torch.zeros(1) for _ in range(4)]
    groups = [{"params": [one], "lr": 0.1 * (i % 2), "betas": (0.9, 0.99)} for i, one in enumerate(tensors)]
    merged = run(cpu_compute.GROUPS.fix.snippet, GROUPS=groups)["groups"]
    assert [(len(one["params"]), one["lr"]) for one in merged] == [(2, 0.0), (2, 0.1)]
    torch.optim.Adam(merged)
    lengths = [100 * (i % 3) for i in range(12)]
    near = {"LENGTHS": lengths, "B": 4, "DATASET": range(12), "PAD_TO_LONGEST": list}
    for batch in run(cpu_compute.BUCKET.fix.snippet, **near)["batches"]:
        assert len({lengths[i] for i in batch}) == 1


def test_prepared_samples_and_rows_of_a_database_come_back(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    keeper = SimpleNamespace()
    samples = [(torch.full((2,), i), i) for i in range(3)]
    take = run(sample_code.PREPARE.fix.snippet, DATASET=samples, self=keeper)["__getitem__"]
    assert [[x.tolist() for x in take(keeper, i)] for i in range(3)] == [[[i, i], i] for i in range(3)]
    Image.fromarray(np.full((2, 3, 3), 7, np.uint8)).save("a.png")
    known = {"PATHS": ["a.png"], "HEIGHT": 2, "WIDTH": 3}
    decoded = run(decode.WAYS["cache-decoded-ram"].fix.snippet, **known)["decoded"]
    assert [np.asarray(decoded(0).crop((0, 0, 1, 1))).tolist() for _ in range(2)] == [[[[7, 7, 7]]]] * 2
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE samples (id, x, y)")
    base.executemany("INSERT INTO samples VALUES (?, ?, ?)", [(i, i, -i) for i in range(5)])
    rows = run(sample_code.QUERY.fix.snippet, DATABASE=base, INDICES=[1, 3], self=keeper)["rows"]
    assert rows == [(1, -1), (3, -3)]
    assert len(keeper.rows) == 5
