"""Gives the libraries inside each loader worker one thread: BLAS, OpenMP, OpenCV.

They are asked through their own functions, since they read the environment when they are loaded, which for a
forked worker was long ago. No options.
"""

from __future__ import annotations

import os
import sys

from ..hints import Any, Callable, Done, Table
from .apply import wrap

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


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's worker loop is there; a worker then limits itself before it does anything else."""

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            try:
                limit()
                done()
            except Exception as problem:
                done("%s: %s" % (type(problem).__name__, problem))
            return original(*args, **kwargs)

        return _worker_loop

    return {"torch.utils.data._utils.worker": lambda module: wrap(module, "_worker_loop", build)}


def limit() -> None:
    """One thread for every pool of this process; libraries loaded later read the environment."""
    for name in VARIABLES:
        os.environ[name] = "1"
    for path, names in _loaded():
        _ask(path, names)
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    if torch is not None:
        torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(0)


def _loaded() -> list[tuple[str, tuple[str, ...]]]:
    """The files of pools that this process has mapped, with the functions that may set their threads."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {line.split(None, 5)[5].rstrip("\n") for line in maps if line.count("/")}
    return [
        (path, names)
        for path in sorted(paths)
        for part, names in POOLS.items()
        if part in os.path.basename(path)
    ]


def _ask(path: str, names: tuple[str, ...]) -> None:
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
