"""Processes, threads and what each waits for are read from /proc."""

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent.state import LAUNCHERS
from bottleneck_doctor.sense import process_tree as tree_module
from bottleneck_doctor.sense.files import PAGE_BYTES, TICKS_PER_S
from bottleneck_doctor.sense.process_tree import MAPPED_AT, RANKS, ChildThreads, Holdings, OtherRanks, Tree
from bottleneck_doctor.sense.wait_sampler import Thread, Wait, call_numbers
from tests.sense.conftest import Plant, Start

S = 1_000_000_000


def process(
    pid: int, parent: int, cpu: int = 0, dead_cpu: int = 0, children: str = "", read: int = 0, born: int = 5
) -> dict[str, str]:
    """The files of one process; ``cpu`` in ticks of user time, ``dead_cpu`` in those of its dead."""
    fields = [parent, 1, 1, 0, -1, 0, 0, 0, 2, 3, cpu, 0, dead_cpu, 0, 20, 0, 4, 0, born, 9, 100, *[0] * 20]
    return {
        f"proc/{pid}/stat": f"{pid} (a) b) S {' '.join(map(str, fields))}\n",
        f"proc/{pid}/io": f"rchar: 8\nsyscr: 2\nread_bytes: {read}\n",
        f"proc/{pid}/task/{pid}/children": children,
    }


def gone(root: Path, pid: int) -> None:
    """Removes a process."""
    (root / f"proc/{pid}/stat").unlink()


def test_a_tree_is_summed_through_the_lists_of_children(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2 "), **process(2, 1, 20, 0, "3"), **process(3, 2, 3, read=7)})
    (root / "proc/3/io").unlink()
    tree = Tree(1, root)
    assert tree.read(0) == {
        "job_cpu_s": 123 / TICKS_PER_S, "job_system_s": 0.0, "job_major_faults": 15,
        "job_rss_bytes": 300 * PAGE_BYTES, "job_largest_rss_bytes": 100 * PAGE_BYTES,
    }  # fmt: skip
    assert tree.io_refused
    plant(process(3, 2, 3, read=7))
    assert Tree(1, root).read(0)["job_read_bytes"] == 7


def test_a_child_that_was_waited_for_counts_once(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 50)})
    tree = Tree(1, root)
    tree.read(0)
    gone(root, 2)
    plant(process(1, 0, 110, dead_cpu=55))
    assert tree.read(S)["job_cpu_s"] == 165 / TICKS_PER_S
    assert tree.pids == {1}


def test_a_process_that_ends_while_it_is_read_refuses_nothing(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant({**process(1, 0, 100, 0, "2", read=5), **process(2, 1, read=7)})
    tree, read_pairs = Tree(1, root), tree_module.read_pairs
    assert tree.read(0)["job_read_bytes"] == 12

    def ends(path: Path) -> dict[str, int]:
        if path.parent.name == "2":
            gone(root, 2)
            return {}
        return read_pairs(path)

    monkeypatch.setattr(tree_module, "read_pairs", ends)
    assert tree.read(S)["job_read_bytes"] == 12
    assert (tree.io_refused, tree.pids) == (False, {1})


def test_an_orphan_is_followed_and_remembered_after_its_death(plant: Plant) -> None:
    root = plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 0, 0, "3"), **process(3, 2, 50)})
    tree = Tree(1, root)
    tree.read(0)
    gone(root, 2)
    plant({**process(1, 0, 100), **process(3, 999, 70)})
    assert tree.read(2 * S)["job_cpu_s"] == 170 / TICKS_PER_S
    assert tree.pids == {1, 3}
    gone(root, 3)
    assert tree.read(4 * S)["job_cpu_s"] == 170 / TICKS_PER_S
    assert tree.pids == {1}
    gone(root, 1)
    assert tree.read(5 * S) == {}


def test_a_number_given_to_another_process_is_not_followed(plant: Plant) -> None:
    tree = Tree(1, plant({**process(1, 0, 100, 0, "2"), **process(2, 1, 50)}))
    tree.read(0)
    plant({**process(1, 0, 100, dead_cpu=50), **process(2, 7, 9000, born=6)})
    assert tree.read(1)["job_cpu_s"] == 150 / TICKS_PER_S
    assert tree.pids == {1}


def test_a_real_grandchild_is_found_both_ways(start: Start) -> None:
    child = start(
        "import subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])\n"
        "print('ready', flush=True)\n"
        "inner.wait()\n"
    )
    tree = Tree(os.getpid())
    assert float(tree.read(0)["job_rss_bytes"]) > 1_000_000
    assert child.pid in tree.pids
    assert len(tree.pids) >= 3
    assert tree_module._descendants_by_scan(os.getpid()) >= tree.pids - {os.getpid()}


def test_a_daemon_that_left_the_tree_unseen_is_still_the_jobs(plant: Plant) -> None:
    """It forked twice between two readings; a process of another run is left out."""
    root = plant({
        **process(1, 0, children="7 40 41 42"), **process(7, 1, children="8"), **process(8, 7, 10),
        **process(40, 1, 50, children="43"), **process(41, 1, 9), **process(42, 1, 9), **process(43, 40, 20),
        "proc/8/environ": "A=1\0BDOC_RUN=/run/mine\0", "proc/40/environ": "BDOC_RUN=/run/mine\0B=2\0",
        "proc/41/environ": "BDOC_RUN=/run/mine2\0", "proc/42/environ": "A=1\0",
    })  # fmt: skip
    tree = Tree(8, root)
    assert tree.read(0)["job_cpu_s"] == 80 / TICKS_PER_S
    assert tree.pids == {8, 40, 43}
    children = {"proc/1/task/1/children": "7 40 41 42 44"}
    plant({**children, **process(44, 1, 5), "proc/44/environ": "BDOC_RUN=/run/mine"})
    tree.read(2 * S)
    assert tree.pids == {8, 40, 43, 44}


def began_with(pid: int, **environ: object) -> dict[str, str]:
    """The variables that a process began with."""
    return {f"proc/{pid}/environ": "".join(f"{name}={value}\0" for name, value in environ.items())}


def launched(launcher: dict[str, str]) -> dict[str, str]:
    """A launcher (7) of two ranks: shells (10, 20) and what they started (11, 21), one with a worker (22)."""
    files = process(7, 0, children="10 20 30")
    for shell, rank in ((10, 0), (20, 1)):
        files |= process(shell, 7, children=str(shell + 1))
        for pid in (shell, shell + 1):
            files |= began_with(pid, RANK=rank, LOCAL_RANK=rank)
    files |= process(11, 10, 90) | process(21, 20, 40, children="22") | process(22, 21, 5)
    return files | process(30, 7, 70) | launcher


@pytest.mark.parametrize(
    "launcher",
    [{}, began_with(7, SLURM_PROCID=0), began_with(7, HOME="/")],
    ids=["unreadable", "another's rank", "none"],
)
def test_ranks_that_others_watch_are_those_of_the_same_launcher(
    plant: Plant, launcher: dict[str, str]
) -> None:
    ranks = OtherRanks(11, plant(launched(launcher)))
    assert ranks.read(0) == {"other_ranks": 1, "other_ranks_cpu_s": 45 / TICKS_PER_S}
    plant({**process(21, 20, 60, children="22"), **process(22, 21, 5)})
    assert ranks.read(S) == {"other_ranks": 1, "other_ranks_cpu_s": 65 / TICKS_PER_S}
    plant(process(7, 0, children="10 30"))
    assert ranks.read(2 * S) == {"other_ranks": 0, "other_ranks_cpu_s": 65 / TICKS_PER_S}


def test_ranks_are_known_from_what_the_agent_knows_them_from() -> None:
    assert [name.decode() for name in RANKS] == [rank for rank, _ in LAUNCHERS]


CALLS = call_numbers("x86_64")


def thread(plant: Plant, state: str, channel: str, call: str) -> Thread:
    """Thread 8 of process 7 in the state that these files show."""
    folder = "proc/7/task/8"
    files = {
        f"{folder}/stat": f"8 (python) x) {state} 1 7\n",
        f"{folder}/wchan": channel,
        f"{folder}/syscall": call,
    }
    return Thread(7, 8, CALLS, plant(files))


@pytest.mark.parametrize(
    ("state", "channel", "call", "seen"),
    [
        ("R", "0", "running\n", None),
        ("D", "folio_wait_bit", "17 0x5 0x0\n", (Wait("", "folio_wait_bit", "descriptor", "pread64"), 5)),
        ("D", "a_new_name", "0 0x3 0x0\n", (Wait("D", "a_new_name", "descriptor", "read"), 3)),
        ("S", "0", "202 0x7f 0x80\n", (Wait("S", "", "lock", "futex"), 0x7F)),
        ("D", "folio_wait_bit", "-1 0x7ff 0x55\n", (Wait("D", "folio_wait_bit", "fault", ""), 0x7FF)),
        ("S", "do_wait", "61 0xff\n", (Wait("S", "do_wait", "other", ""), 0xFF)),
        ("S", "do_poll", "7 0x7f 0x2 0x5\n", (Wait("", "do_poll", "poll", "poll"), 0x7F)),
    ],
)
def test_a_look_gives_call_channel_and_state(
    plant: Plant, state: str, channel: str, call: str, seen: tuple[Wait, int] | None
) -> None:
    assert thread(plant, state, channel, call).look() == seen


@pytest.mark.parametrize("call", ["23 0x0 0x0 0x0\n", "270 0x0 0x0\n", "7 0x7f 0x0 0x5\n", "271 0x0 0x0\n"])
def test_polling_nothing_is_a_sleep(plant: Plant, call: str) -> None:
    seen = thread(plant, "S", "poll_schedule_timeout", call).look()
    assert seen is not None
    assert seen[0].call_kind == "sleep"


@pytest.mark.parametrize("state", ["Z", "X", "T", "t"])
def test_a_thread_that_ended_or_was_stopped_is_not_counted(plant: Plant, state: str) -> None:
    with pytest.raises(ProcessLookupError):
        thread(plant, state, "do_signal_stop", "61 0x0\n").look()


SECOND = 1_000_000_000


def stats(main: str, other: str = "", pid: int = 8) -> dict[str, str]:
    """``schedstat`` of a process's main thread and of another one."""
    files = {f"proc/{pid}/task/{pid}/schedstat": main, "proc/7/task/7/schedstat": f"{90 * SECOND} 0 1"}
    return files | ({f"proc/{pid}/task/11/schedstat": other} if other else {})


def test_main_threads_and_others_are_summed_apart_and_the_watched_process_left_out(plant: Plant) -> None:
    root = plant(stats(f"{3 * SECOND} {SECOND} 9", f"{2 * SECOND} {5 * SECOND} 9"))
    assert ChildThreads(7, root).read([7, 8]) == {
        "children_main_cpu_s": 3.0, "children_main_queue_s": 1.0, "children_beside_cpu_s": 2.0,
    }  # fmt: skip


def test_a_thread_that_was_left_out_is_not_counted_twice(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_module, "MOST_THREADS", 2)
    children = ChildThreads(7, plant(stats(f"{SECOND} 0 1", f"{5 * SECOND} 0 1")))
    assert children.read([7, 8])["children_beside_cpu_s"] == 5
    plant(stats(f"{SECOND} 0 1", pid=9))
    found = children.read([7, 8, 9])  # two main threads: the other one is left out
    assert (found["children_main_cpu_s"], found["children_beside_cpu_s"]) == (2, 5)
    assert children.read([7, 8])["children_beside_cpu_s"] == 5


ROLLUP = "Rss: 900 kB\nPrivate_Dirty: {dirty} kB\nSwap: 4 kB\n"
STATUS = "PPid:\t{parent}\nRssAnon:\t{own} kB\n"
LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax open files       {soft}       4096      files\n"


def test_private_memory_is_summed_and_the_fullest_process_named(plant: Plant) -> None:
    files = {"proc/7/fd/0": "", "proc/7/fd/1": "", "proc/8/fd/0": ""}
    files |= {"proc/7/limits": LIMITS.format(soft=1024), "proc/8/limits": LIMITS.format(soft=2)}
    files |= {"proc/7/status": STATUS.format(parent=1, own=100)}
    files |= {"proc/8/status": STATUS.format(parent=7, own=50)}
    values = Holdings(plant(files)).read([7, 8, 9])
    assert values["job_private_bytes"] == 150 * 1024
    assert (values["descriptors"], values["descriptor_limit"]) == (1, 2)


def test_of_forked_workers_some_are_walked_and_stand_for_all(plant: Plant) -> None:
    files = {f"proc/{pid}/status": STATUS.format(parent=7 if pid > 7 else 1, own=900) for pid in range(7, 12)}
    files |= {f"proc/{pid}/cmdline": "python\0train.py\0" for pid in range(7, 12)}
    files |= {"proc/8/smaps_rollup": ROLLUP.format(dirty=10), "proc/9/smaps_rollup": ROLLUP.format(dirty=30)}
    files["proc/12/status"] = STATUS.format(parent=7, own=5)  # another program: it shares nothing
    files["proc/12/cmdline"] = "ffmpeg\0"
    values = Holdings(plant(files)).read(range(7, 13))
    assert values["job_private_bytes"] == (900 + 4 * 20 + 5) * 1024


MAPS = """\
1000-3000 r--p 00000000 08:01 11 /data/rows.bin
3000-4000 rw-s 00000000 08:01 11 /data/rows.bin
4000-9000 rw-p 00000000 00:00 0
5000-6000 r--p 00000000 08:01 12 /usr/bin/python3
6000-7000 r-xp 00000000 08:01 12 /usr/bin/python3
7000-8000 r--p 00000000 08:01 13 /usr/lib/libm.so.6
8000-9000 rw-s 00000000 00:01 14 /dev/shm/torch_1
9000-a000 r--p 00000000 08:01 15 /data/with a space
a000-b000 rw-p 00000000 00:00 0 [heap]
"""


def test_data_files_that_a_process_maps_are_summed_once(plant: Plant) -> None:
    """Code, shared memory and anonymous memory are no data files."""
    holdings = Holdings(plant({"proc/7/maps": MAPS}))
    read = [holdings.read([7, 8]) for _ in range(MAPPED_AT + 1)]
    assert [values.get("mapped_data_bytes") for values in read] == [None] * (MAPPED_AT - 1) + [0x4000, None]


@pytest.mark.parametrize(
    ("maps", "mapped"), [(None, None), (f"{MAPS}b000-ffff r--", 0x4000)], ids=["unreadable", "cut off"]
)
def test_a_list_of_maps_may_be_missing_or_cut_off(plant: Plant, maps: str | None, mapped: int | None) -> None:
    holdings = Holdings(plant({"proc/7/": "", **({"proc/7/maps": maps} if maps else {})}))
    read = [holdings.read([7]) for _ in range(MAPPED_AT)]
    assert read[-1].get("mapped_data_bytes") == mapped
