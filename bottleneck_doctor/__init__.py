"""The bottleneck doctor: says what limits a PyTorch training, and what to change first."""

from __future__ import annotations

TYPE_CHECKING = False  # a training that arms the agent itself imports this file: nothing else
if TYPE_CHECKING:
    import os

    from .model.report import Report

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(path: str | os.PathLike[str] = "profile.json") -> Report:
    """The report that this version draws from a profile: ``load("profile.json").verdict.bound``.

    Its fields are those of ``bdoc report --format json`` (docs/reference/report.md), seconds and shares of 1.
    Raises ValueError where the file is missing or no profile, with the line that ``bdoc report`` would say.
    """
    from .commands.reading import report_of

    return report_of(str(path))
