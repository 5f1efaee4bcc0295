"""What processes below the watched one compute in their main thread and beside it, and how long it waits."""

from __future__ import annotations

from bottleneck_doctor.sense.child_threads import PERIOD_NS, ChildThreads
from tests.sense.conftest import Plant

SECOND = 1_000_000_000


def stats(main: str, beside: str = "", pid: int = 8) -> dict[str, str]:
    """``schedstat`` of a process's main thread and of one beside it."""
    files = {f"proc/{pid}/task/{pid}/schedstat": main, "proc/7/task/7/schedstat": f"{90 * SECOND} 0 1"}
    return files | ({f"proc/{pid}/task/11/schedstat": beside} if beside else {})


def test_main_threads_and_others_are_summed_apart_and_the_watched_process_left_out(plant: Plant) -> None:
    root = plant(stats(f"{3 * SECOND} {SECOND} 9", f"{2 * SECOND} {5 * SECOND} 9"))
    assert ChildThreads(7, root).read(1, [7, 8]) == {
        "children_main_cpu_s": 3.0, "children_main_queue_s": 1.0, "children_beside_cpu_s": 2.0,
    }  # fmt: skip


def test_what_an_ended_process_used_stays_in(plant: Plant) -> None:
    root = plant(stats(f"{3 * SECOND} 0 9") | stats(f"{SECOND} 0 9", pid=9))
    children = ChildThreads(7, root)
    assert children.read(1, [7, 8, 9])["children_main_cpu_s"] == 4.0
    assert not children.read(PERIOD_NS, [7, 9])  # fresh
    plant(stats(f"{2 * SECOND} 0 9", pid=9))
    assert children.read(PERIOD_NS + 1, [7, 9])["children_main_cpu_s"] == 5.0


def test_without_children_nothing_is_said(plant: Plant) -> None:
    assert not ChildThreads(7, plant(stats("1 0 1"))).read(1, [7])


def test_a_kernel_that_keeps_no_such_account_is_silence(plant: Plant) -> None:
    assert not ChildThreads(7, plant({"proc/8/task/8/stat": "8 (x) S"})).read(1, [7, 8])
