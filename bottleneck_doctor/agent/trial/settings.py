"""Treatments that set a switch, or call a function of torch in another way: one function each, by its name.

Each takes the treatment's options and ``done``, as agent/trial says; what it needs is in its first line.
"""

from __future__ import annotations

import resource
import sys

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .hook_points import at_start

# What ``checkpoint`` takes for itself; everything else is the block's.
CHECKPOINTS = (
    "use_reentrant",
    "context_fn",
    "determinism_check",
    "debug",
    "early_stop",
    "preserve_rng_state",
)


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


def denormals(options: dict[str, Any], done: Done) -> Table:
    """No options: the CPU takes numbers too small to be normal for zero, in every thread.

    The switch belongs to a thread, and a new thread takes it from the one that starts it. So it is thrown
    before torch has any, and stays where the script throws it back; workers throw it for themselves.
    """

    def act(torch: Any) -> None:
        done("" if torch.set_flush_denormal(True) else "this processor cannot")
        wrap(torch, "set_flush_denormal", lambda original: lambda mode: original(True))

    return {"torch": act}


def sharing(options: dict[str, Any], done: Done) -> Table:
    """``strategy``: tensors go between processes by name; what a script sets later has the last word."""

    def patch(module: Any) -> None:
        module.set_sharing_strategy(options.get("strategy", "file_system"))
        done()

    return {"torch.multiprocessing": patch}


def descriptors(options: dict[str, Any], done: Done) -> Table:
    """No options: the limit of open files, raised as far as it may without rights; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        done("the limit of %d open files can only be raised by an administrator" % hard)
        return {}
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    done()
    return {}


def dynamic(options: dict[str, Any], done: Done) -> Table:
    """No options: ``torch.compile``, and so ``Module.compile``, compiles once for all shapes."""

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_(*args: Any, **kwargs: Any) -> Any:
            done()
            return original(*args, **{**kwargs, "dynamic": True})

        return compile_

    return {"torch": lambda torch: wrap(torch, "compile", build)}


def empty_cache(options: dict[str, Any], done: Done) -> Table:
    """No options: freed device memory stays with the allocator, since ``empty_cache`` does nothing."""
    return {"torch": lambda torch: wrap(torch.cuda, "empty_cache", lambda original: lambda: done())}


def recompute(options: dict[str, Any], done: Done) -> Table:
    """No options: activations are kept instead of computed twice; blocks are called as they are."""

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            done()
            return function(
                *args, **{name: value for name, value in kwargs.items() if name not in CHECKPOINTS}
            )

        return checkpoint

    return {"torch.utils.checkpoint": lambda module: wrap(module, "checkpoint", build)}


SETTINGS: dict[str, Callable[[dict[str, Any], Done], Table]] = {
    one.__name__: one
    for one in (cudnn, precision, threads, denormals, sharing, descriptors, dynamic, empty_cache, recompute)
}
