"""Of the kernel's CPU, what mapping pages anew took: by counts, and without what fetches took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.memory import fetched_paging_s, made_paging_s, paging_s, without_making
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.diagnosis import Inputs
from tests.analyse.runs import run_of

MS = 1e-3
STEP = replace(
    steps_of(run_of(compute=10 * MS, noise=0.0).loops[0].table)[0],
    cpu=6 * MS, wait_cpu=2 * MS, system=4 * MS, faults=4000.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("system_ms", "faults", "paging_ms"),
    [(4.0, 4000.0, 4.0), (40.0, 4000.0, 4.0), (4.0, 100.0, 0.0), (None, 4000.0, 0.0), (4.0, None, 0.0)],
)
def test_no_more_than_so_many_faults_can_take(
    system_ms: float | None, faults: float | None, paging_ms: float
) -> None:
    assert paging_s(None if system_ms is None else system_ms * MS, faults) == pytest.approx(paging_ms * MS)


def test_where_a_page_was_timed_no_more_than_a_quarter_above_that() -> None:
    assert paging_s(4 * MS, 4000.0, 2e-6) == pytest.approx(4 * MS)
    assert paging_s(40 * MS, 4000.0, 2e-6) == pytest.approx(10 * MS), "sockets are the kernel's work, too"


def test_of_a_batch_reads_and_shared_memory_are_not_the_allocators() -> None:
    made = Inputs(system=5 * MS, minor_faults=4000.0)
    assert fetched_paging_s(made) == pytest.approx(5 * MS)
    assert fetched_paging_s(replace(made, read_bytes=5e6)) == pytest.approx(4 * MS)
    assert fetched_paging_s(made, shared_bytes=4096 * 3900) == 0.0
    assert fetched_paging_s(replace(made, minor_faults=None)) == 0.0


def test_a_loop_that_makes_its_batches_shares_the_kernels_part_by_cpu() -> None:
    assert made_paging_s([STEP]) == pytest.approx(1 * MS)  # 2 of its 8 ms of CPU make the batch
    (left,) = without_making([STEP], Inputs())
    assert (left.system, left.faults) == (pytest.approx(3 * MS), pytest.approx(3000))


def test_what_fetches_took_is_taken_off_where_it_was_counted() -> None:
    (left,) = without_making([STEP], Inputs(system=2 * MS, minor_faults=1000.0))
    assert (left.system, left.faults) == (pytest.approx(1.8 * MS), pytest.approx(2900))
    (none,) = without_making([STEP], Inputs(system=4 * MS, minor_faults=5000.0))
    assert (none.system, none.faults) == (0.0, 0.0)
