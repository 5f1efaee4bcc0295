"""Treatments of who computes where: threads of the training and of its workers, cores of each process."""

from __future__ import annotations

import os
import sys

from ..hints import Any, Callable, Done, Table
from .hook_points import at_start, told, wrap

NODES = "/sys/devices/system/node"
# part of a library's file name -> functions that set its threads; the first that it has is called
POOLS = {
    "openblas": tuple(
        prefix + "openblas_set_num_threads" + suffix
        for prefix in ("", "scipy_") for suffix in ("", "64_", "_64_", "64")
    ),
    "mkl_rt": ("MKL_Set_Num_Threads",),
    "blis": ("bli_thread_set_num_threads",),
    "libgomp": ("omp_set_num_threads",),
    "libomp": ("omp_set_num_threads",),
    "libiomp": ("omp_set_num_threads",),
}  # fmt: skip
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def threads(options: dict[str, Any], done: Done) -> Table:
    """``count``: so many threads compute, whatever the environment handed down and the script asked for.

    Loader workers keep their one thread. Pools of other libraries follow OMP_NUM_THREADS, which the treatment
    "environment" sets; OpenCV's follows here where it is loaded.
    """
    count = int(options["count"])

    def act(torch: Any) -> None:
        torch.set_num_threads(count)
        vision: Any = sys.modules.get("cv2")
        if vision is not None:
            vision.setNumThreads(count)
        got = torch.get_num_threads()
        done("" if got == count else "torch computes with %d threads" % got)

    return at_start(act, done)


def worker_threads(options: dict[str, Any], done: Done) -> Table:
    """No options: the libraries inside each loader worker get one thread, before it does anything else.

    They are asked through their own functions, since they read the environment when they are loaded, which
    for a forked worker was long ago.
    """

    def limit() -> None:
        _limit_pools()
        done()

    def _worker_loop(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        told(limit, done)
        return original(*args, **kwargs)

    return {"torch.utils.data._utils.worker": lambda module: wrap(module, "_worker_loop", _worker_loop)}


def _limit_pools() -> None:
    """One thread for every pool of this process; libraries loaded later read the environment."""
    for name in VARIABLES:
        os.environ[name] = "1"
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        mapped = {line.split(None, 5)[5].rstrip("\n") for line in maps if line.count("/")}
    for path in sorted(mapped):
        for part, names in POOLS.items():
            if part in os.path.basename(path):
                _limit_library(path, names)
    torch, vision = sys.modules.get("torch"), sys.modules.get("cv2")
    if torch is not None:
        torch.set_num_threads(1)
    if vision is not None:
        vision.setNumThreads(0)


def _limit_library(path: str, names: tuple[str, ...]) -> None:
    import ctypes  # most runs limit nothing

    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:  # mapped, but no library: a file of data with such a name
        return
    for name in names:
        function = getattr(library, name, None)
        if function is not None:
            function(1)
            return


def numa(options: dict[str, Any], done: Done) -> Table:
    """No options: each process keeps to the cores of one node of the machine, at once, before torch counts
    them; memory that it touches first lies there, too. Ranks are dealt to the nodes in turn, and workers stay
    where their trainer is."""
    allowed = os.sched_getaffinity(0)
    numbers = sorted(int(name[4:]) for name in os.listdir(NODES) if name[:4] == "node" and name[4:].isdigit())
    every = (_cores(NODES + "/node%d/cpulist" % number) for number in numbers)
    nodes = [cores for cores in every if cores & allowed]
    if len(nodes) < 2:
        done("the cores that it may use belong to one node" if nodes else "no nodes are told of")
        return {}
    rank = os.environ.get("LOCAL_RANK", "0")
    os.sched_setaffinity(0, nodes[int(rank) % len(nodes)] & allowed)
    done()
    return {}


def _cores(file: str) -> set[int]:
    """Of a list such as 0-3,8-11."""
    cores: set[int] = set()
    with open(file, encoding="ascii") as listed:
        for part in listed.read().strip().split(","):
            first, _, last = part.partition("-")
            if first:
                cores.update(range(int(first), int(last or first) + 1))
    return cores
