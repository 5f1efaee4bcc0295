"""The bottleneck doctor: says what limits a PyTorch training, and what to change first."""

from __future__ import annotations

TYPE_CHECKING = False  # a training that arms the agent itself imports this file: nothing else
if TYPE_CHECKING:
    import os
    from typing import Any

    from .model.report import Report
    from .within import Watch

__version__ = "0.1.0"
__all__ = ["__version__", "load", "load_ipython_extension", "watch"]


def load(path: str | os.PathLike[str] = "profile.json") -> Report:
    """The report that this version draws from a profile: ``load("profile.json").verdict.bound``.

    Its fields are those of ``bdoc report --format json``, seconds and shares of 1.
    Raises ValueError where the file is missing or no profile, with the line that ``bdoc report`` would say.
    """
    from .commands.output import report_of

    return report_of(str(path))


def watch(output: str | os.PathLike[str] | None = None, **options: Any) -> Watch:
    """A block to be watched: ``with watch() as w:``, and afterwards ``w.report``, ``w.path``, ``w.show()``.

    The profile goes to ``output`` ("profile.json"). Options are those of ``bdoc run`` that need no start:
    ``no_profiler``, ``no_py_spy``, ``no_paths`` (all True or False), and ``data_fn``, a list of
    "module:function". Entering raises RuntimeError where the process is watched
    already, ValueError for a wrong option; the block's own exceptions pass through.
    """
    import os

    from .within import Watch

    return Watch({**options, **({"output": os.fspath(output)} if output is not None else {})})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext bottleneck_doctor``: from then on ``%%bdoc`` watches a cell."""
    from .notebook import register

    register(shell)
