"""Of several loaders of one script, each treated in another way, only the one meant is changed."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("name", SAID)
def test_the_script_sees_what_was_ordered_and_else_what_it_saw_before(name: str) -> None:
    assert tried().said[name] == SAID[name]


def test_every_pool_of_a_worker_has_one_thread() -> None:
    assert set(tried().said["pools"]) == {1}


@pytest.mark.parametrize("name", TOLD)
def test_what_became_of_each_treatment_is_told(name: str) -> None:
    assert tried().told(name) == TOLD[name]
