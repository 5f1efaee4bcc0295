"""Treatments that set a switch of torch's or Python's, or who computes where: one function each, by its name.

Each takes the treatment's options and ``done``, as agent/trial says; what it needs is in its first line.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import sys
import threading

from ..hints import Any, Callable, Done, Table
from .hook_points import after_backward, at_first_backward, at_start, reported, together, wrap

SEED_BITS = 0xFFFFFFFF  # numpy takes no larger seed


def cudnn(options: dict[str, Any], done: Done) -> Table:
    """``benchmark``: cuDNN times its algorithms for each new shape and keeps the fastest, or does not."""

    def act(torch: Any) -> None:
        torch.backends.cudnn.benchmark = bool(options["benchmark"])
        done()

    return at_start(act, done)  # until the training begins the script may set the switch itself


def precision(options: dict[str, Any], done: Done) -> Table:
    """``matmul``: as torch.set_float32_matmul_precision takes it; ``convolutions``: TF32 in cuDNN's."""

    def act(torch: Any) -> None:
        torch.set_float32_matmul_precision(options["matmul"])
        if options.get("convolutions"):
            torch.backends.cudnn.allow_tf32 = True
        done()

    return at_start(act, done)


def sharing(options: dict[str, Any], done: Done) -> Table:
    """``strategy``: tensors go between processes by name; what a script sets later has the last word."""

    def act(multiprocessing: Any) -> None:
        multiprocessing.set_sharing_strategy(options.get("strategy", "file_system"))
        done()

    return {"torch.multiprocessing": act}


def descriptors(options: dict[str, Any], done: Done) -> Table:
    """No options: the limit of open files, raised as far as it may without rights; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        done("the limit of %d open files can only be raised by an administrator" % hard)
        return {}
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    done()
    return {}


def empty_cache(options: dict[str, Any], done: Done) -> Table:
    """No options: freed device memory stays with the allocator, since ``empty_cache`` does nothing."""
    return {"torch": lambda torch: wrap(torch.cuda, "empty_cache", lambda original: done())}


def debug(options: dict[str, Any], done: Done) -> Table:
    """Switches off what hunts for mistakes in every step. ``drop``: "anomaly", autograd's detection of NaN,
    never comes on; "tracer": trace and profile functions of the training's thread, such as coverage's or a
    debugger's, go when the first backward pass begins."""

    def off(original: Callable[..., None], mode: bool, check_nan: bool = True) -> None:
        if mode:
            done()
        original(False, check_nan)

    def untraced(torch: Any) -> None:
        there = sys.gettrace() is not None or sys.getprofile() is not None
        for one in (sys.settrace, sys.setprofile, threading.settrace, threading.setprofile):
            one(None)
        done("" if there else "no trace or profile function was there")

    if options["drop"] == "anomaly":
        return {"torch": lambda torch: wrap(torch, "set_anomaly_enabled", off)}
    return at_first_backward(untraced, done)


def collector(options: dict[str, Any], done: Done) -> Table:
    """Keeps Python's garbage collector away from what lives as long as the training. No options: all that
    lives when the first backward pass begins is frozen once; ``every``: young objects are collected at each
    so many passes, and at no other time."""
    every = int(options.get("every", 0))

    def freeze(torch: Any) -> None:
        gc.collect()
        gc.freeze()
        done()

    def rest(torch: Any) -> None:
        gc.disable()
        done()

    def collect(count: int) -> None:
        if count % every == 0:
            gc.collect(1)

    if not every:
        return at_first_backward(freeze, done)
    return together(at_first_backward(rest, done), after_backward(collect, done))


def seed(first: int) -> Table:
    """Has random numbers begin with a seed, in each run of a trial alike; a script's own come later and win.

    Python is seeded now, torch and numpy once they are there. Ranks that seed nothing differ from each other,
    as they would without us: else all of them might draw the same samples. The order of a set of texts is
    seeded by the supervisor: PYTHONHASHSEED is read before any code of bdoc runs.
    """
    rank = os.environ.get("RANK", "")
    mine = (first + (int(rank) if rank.isdigit() else 0)) & SEED_BITS
    random.seed(mine)

    return {"torch": lambda torch: torch.manual_seed(mine), "numpy.random": lambda numpy: numpy.seed(mine)}


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
        reported(limit, done)
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
