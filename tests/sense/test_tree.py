"""The tree's sums keep what its dead have used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent.startup import LAUNCHERS
from bottleneck_doctor.sense import process_tree as tree_module
from bottleneck_doctor.sense.proc_files import PAGE_BYTES, TICKS_PER_S
from bottleneck_doctor.sense.process_tree import RANKS, OtherRanks, Tree
from tests.sense.conftest import Plant, Start

S = 1_000_000_000


def process(
    pid: int, parent: int, cpu: int = 0, dead_cpu: int = 0, children: str = "", read: int = 0, born: int = 5
) -> dict[str, str]:
    """The files of one process; ``cpu`` in ticks of user time, ``dead_cpu`` in those of its dead."""
    fields = [parent, 1, 1, 0, -1, 0, 0, 0, 2, 3, cpu, 0, dead_cpu, 0, 20, 0, 4, 0, born, 9, 100, *[0] * 20]
    return {
        f"proc/{pid}/stat": f"{pid} (a) b) S {' '.join(map(str, fields))}\n",
        f"proc/{pid}/io": f"rchar: 8\nsyscr: 2\nread_bytes: {read}\nwrite_bytes: 1\n",
        f"proc/{pid}/task/{pid}/children": children,
    }


def gone(root: Path, pid: int) -> None:
    """Removes a process."""
    (root / f"proc/{pid}/stat").unlink()


def test_a_tree_is_summed_through_the_lists_of_children(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2 "), **process(2, 1, 20, 0, "3"), **process(3, 2, 3, read=7)})
    usage = Tree(1, root).read(0)
    assert usage is not None
    assert usage.user_s == 123 / TICKS_PER_S
    assert (usage.processes, usage.threads, usage.read_bytes, usage.reads) == (3, 12, 7, 6)
    assert (usage.rss_bytes, usage.major_faults) == (300 * PAGE_BYTES, 15)


def test_a_child_that_was_waited_for_counts_once(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 50)})
    tree = Tree(1, root)
    tree.read(0)
    gone(root, 2)
    plant(process(1, 0, 110, dead_cpu=55))
    usage = tree.read(S)
    assert usage is not None
    assert (usage.user_s, usage.processes) == (165 / TICKS_PER_S, 1)


def test_an_orphan_is_followed_and_remembered_after_its_death(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 0, 0, "3"), **process(3, 2, 50)})
    tree = Tree(1, root)
    tree.read(0)
    gone(root, 2)
    plant({**process(1, 0, 100), **process(3, 999, 70)})
    followed = tree.read(2 * S)
    gone(root, 3)
    remembered = tree.read(4 * S)
    assert followed is not None
    assert remembered is not None
    assert (followed.user_s, followed.processes) == (170 / TICKS_PER_S, 2)
    assert (remembered.user_s, remembered.processes) == (170 / TICKS_PER_S, 1)


def test_counters_never_fall_while_a_child_waits_to_be_counted(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 50)})
    tree = Tree(1, root)
    tree.read(0)
    gone(root, 2)
    usage = tree.read(1)
    assert usage is not None
    assert usage.user_s == 150 / TICKS_PER_S


def test_a_number_given_to_another_process_is_not_followed(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 50)})
    tree = Tree(1, root)
    tree.read(0)
    plant({**process(1, 0, 100, dead_cpu=50), **process(2, 7, 9000, born=6)})
    usage = tree.read(1)
    assert usage is not None
    assert (usage.user_s, tree.pids) == (150 / TICKS_PER_S, {1})


def test_the_tree_is_walked_at_most_once_a_second(plant: Plant) -> None:
    root = plant(process(1, 0))
    tree = Tree(1, root)
    tree.read(0)
    plant({**process(1, 0, children="2"), **process(2, 1)})
    tree.read(S // 2)
    assert tree.pids == {1}
    tree.read(S)
    assert tree.pids == {1, 2}


def test_a_tree_that_is_gone_reads_as_none(plant: Plant) -> None:
    assert Tree(1, plant({"proc/": ""})).read(0) is None


def test_refused_byte_counts_are_noticed(plant: Plant) -> None:
    root = plant(process(1, 0))
    (root / "proc/1/io").unlink()
    tree = Tree(1, root)
    tree.read(0)
    assert tree.io_refused


def test_a_kernel_without_lists_of_children_is_walked_instead(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant({**process(1, 0), **process(2, 1)})
    (root / "proc/1/task/1/children").unlink()
    monkeypatch.setattr(tree_module, "_descendants_by_scan", lambda pid: {2} if pid == 1 else set())
    tree = Tree(1, root)
    tree.read(0)
    assert tree.pids == {1, 2}


def test_a_real_grandchild_is_found_both_ways(start: Start) -> None:
    child = start(
        "import subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])\n"
        "print('ready', flush=True)\n"
        "inner.wait()\n"
    )
    tree = Tree(os.getpid())
    usage = tree.read(0)
    assert usage is not None
    assert child.pid in tree.pids
    assert usage.processes >= 3
    assert usage.rss_bytes > 1_000_000
    assert tree_module._descendants_by_scan(os.getpid()) >= tree.pids - {os.getpid()}


def test_a_daemon_that_left_the_tree_unseen_is_still_the_jobs(plant: Plant) -> None:
    """It forked twice between two readings; a stranger beside it, of another run, stays one."""
    root = plant({
        **process(1, 0, children="7 40 41 42"), **process(7, 1, children="8"), **process(8, 7, 10),
        **process(40, 1, 50, children="43"), **process(41, 1, 9), **process(42, 1, 9), **process(43, 40, 20),
        "proc/8/environ": "A=1\0BDOC_RUN=/run/mine\0", "proc/40/environ": "BDOC_RUN=/run/mine\0B=2\0",
        "proc/41/environ": "BDOC_RUN=/run/mine2\0", "proc/42/environ": "A=1\0",
    })  # fmt: skip
    tree = Tree(8, root)
    usage = tree.read(0)
    assert usage is not None
    assert tree.pids == {8, 40, 43}
    assert usage.user_s == 80 / TICKS_PER_S
    plant(
        {
            "proc/1/task/1/children": "7 40 41 42 44",
            **process(44, 1, 5),
            "proc/44/environ": "BDOC_RUN=/run/mine",
        }
    )
    tree.read(2 * S)
    assert tree.pids == {8, 40, 43, 44}


def told(pid: int, **environ: object) -> dict[str, str]:
    """The variables that a process began with."""
    return {f"proc/{pid}/environ": "".join(f"{name}={value}\0" for name, value in environ.items())}


def launched(launcher: dict[str, str]) -> dict[str, str]:
    """A launcher (7) of two ranks: shells (10, 20) and what they started (11, 21), one with a worker (22)."""
    files = process(7, 0, children="10 20 30")
    for shell, rank in ((10, 0), (20, 1)):
        files |= process(shell, 7, children=str(shell + 1))
        for pid in (shell, shell + 1):
            files |= told(pid, RANK=rank, LOCAL_RANK=rank)
    files |= process(11, 10, 90) | process(21, 20, 40, children="22") | process(22, 21, 5)
    return files | process(30, 7, 70) | launcher


@pytest.mark.parametrize(
    "launcher", [{}, told(7, SLURM_PROCID=0), told(7, HOME="/")], ids=["unreadable", "another's rank", "none"]
)
def test_ranks_that_others_watch_are_those_of_the_same_launcher(
    plant: Plant, launcher: dict[str, str]
) -> None:
    root = plant(launched(launcher))
    ranks = OtherRanks(11, root)
    assert ranks.read(0) == {"other_ranks": 1, "other_ranks_cpu_s": 45 / TICKS_PER_S}
    plant({**process(21, 20, 60, children="22"), **process(22, 21, 5)})
    assert ranks.read(S) == {"other_ranks": 1, "other_ranks_cpu_s": 65 / TICKS_PER_S}
    plant(process(7, 0, children="10 30"))
    assert ranks.read(2 * S) == {"other_ranks": 0, "other_ranks_cpu_s": 65 / TICKS_PER_S}


def test_a_rank_that_has_yet_to_call_exec_is_found_at_the_next_reading(plant: Plant) -> None:
    root = plant({**launched({}), **told(20, HOME="/")})
    ranks = OtherRanks(11, root)
    assert ranks.read(0) == {}
    plant(told(20, RANK=1))
    assert ranks.read(S)["other_ranks"] == 1


def test_a_process_without_a_rank_has_no_other_ranks(plant: Plant) -> None:
    assert OtherRanks(30, plant({**launched({}), **told(30, HOME="/")})).read(0) == {}


def test_a_single_rank_has_no_other_ranks(plant: Plant) -> None:
    root = plant({**launched({}), **process(7, 0, children="10 30")})
    assert OtherRanks(11, root).read(0) == {}


def test_ranks_are_known_from_what_the_agent_knows_them_from() -> None:
    assert [name.decode() for name in RANKS] == [rank for rank, _ in LAUNCHERS]
