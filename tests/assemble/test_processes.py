"""Each process says what it is by what it did."""

from __future__ import annotations

from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.processes import read_processes
from bottleneck_doctor.assemble.rows import Row
from tests.assemble.logs import log, row


@pytest.mark.parametrize(
    ("rows", "facts", "role"),
    [
        ([row(wire.NEXT, 1)], [], "trainer"),
        ([row(wire.BACKWARD, 1)], [], "trainer"),
        ([row(wire.STEP, 1)], [], "trainer"),
        ([row(wire.FETCH, 1)], [{"fact": "worker", "worker": 3}], "worker"),
        ([row(wire.COLLECTION, 1)], [{"fact": "torch", "version": "2"}], "other"),
        ([], [], "other"),
    ],
)
def test_a_process_is_what_it_did(rows: list[Row], facts: list[dict[str, Any]], role: str) -> None:
    (process,) = read_processes([log(rows, facts=facts)], {}, 0)
    assert process.role == role


def test_trainers_come_first() -> None:
    others = [log([], pid=pid) for pid in (1, 2)]
    found = read_processes([*others, log([row(wire.BACKWARD, 1)], pid=3)], {}, 0)
    assert [process.pid for process in found] == [3, 1, 2]


def test_a_worker_knows_its_loader_and_number() -> None:
    parent = log([row(wire.WORKER, 1, 0, 200, 3, thing=1)])
    worker = log([], pid=200, facts=[{"fact": "worker", "worker": 3}])
    found = read_processes([parent, worker], {(100, 1): "100:1"}, 0)
    assert [(one.pid, one.loader, one.worker) for one in found] == [(200, "100:1", 3), (100, None, None)]


def test_what_a_script_sets_after_importing_torch_counts() -> None:
    facts = [
        {"fact": "torch", "version": "2.13.0", "threads": 8},
        {"fact": "settled", "threads": 1, "device": "cpu"},
    ]
    (process,) = read_processes([log([], facts=facts)], {}, 0)
    assert (process.torch, process.torch_threads, process.device) == ("2.13.0", 1, "cpu")


def test_a_process_that_began_before_the_run_begins_with_it() -> None:
    (process,) = read_processes([log([row(wire.BACKWARD, 5, 2)])], {}, 10**9)
    assert (process.started_s, process.ended_s) == (0.0, 0.0)
