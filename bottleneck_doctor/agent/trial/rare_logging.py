"""Logs in one step of many: the others' records are not made, bars not drawn, files not forced to the disk.

Options: ``every`` so many backward passes are logged in one. Warnings and worse are logged always, and so is
what other threads log and what comes before the first pass. What the loop computes only to log it, as
``loss.item()`` in the call's arguments, is computed all the same: the gain measured is a lower bound.
"""

from __future__ import annotations

import threading

from ..hints import Any, Callable, Done, Table
from ..saving import LOGGING, written
from .apply import wrap
from .hook_points import after_backward, together

WARNING = 30  # logging.WARNING; what is worse is never dropped
WRITER = "tensorboard.summary.writer.event_file_writer"


def watchers(options: dict[str, Any], done: Done) -> Table:
    """All ways that logging takes and that are timed."""
    rare = _LoggingInterval(int(options["every"]), done)
    return together(
        after_backward(rare.passed, done),
        {
            "logging": lambda module: wrap(module.Logger, "isEnabledFor", rare.unless_urgent),
            "os": lambda module: wrap(module, "fsync", rare.log_file),
            "tqdm.std": lambda module: wrap(
                module.tqdm, "display", lambda original: rare.dropped(original, True)
            ),
            WRITER: rare.writer,
        },
    )


class _LoggingInterval:
    """Whether this is one of the steps that log nothing, in the thread that trains."""

    def __init__(self, every: int, done: Done) -> None:
        self.every, self.done = every, done
        self.silent = False
        self.trains = 0

    def passed(self, count: int) -> None:
        """A backward pass has ended."""
        self.trains = threading.get_ident()
        self.silent = count % self.every != 0

    def drops(self) -> bool:
        """Whether what is to be logged now is not."""
        if not self.silent or threading.get_ident() != self.trains:
            return False
        self.done()
        return True

    def unless_urgent(self, original: Callable[..., bool]) -> Callable[..., bool]:
        """A record below a warning is not made."""

        def isEnabledFor(logger: Any, level: int) -> bool:
            enabled = original(logger, level)
            return enabled and (level >= WARNING or not self.drops())

        return isEnabledFor

    def writer(self, module: Any) -> None:
        """TensorBoard's."""
        for name in ("add_event", "flush"):
            wrap(module.EventFileWriter, name, lambda original: self.dropped(original, None))

    def log_file(self, original: Callable[..., None]) -> Callable[..., None]:
        """Only a log need not be forced to the disk: a checkpoint is on it when the script goes on."""

        def fsync(fd: Any) -> None:
            if written.kind(fd) == LOGGING and self.drops():
                return None
            return original(fd)

        return fsync

    def dropped(self, original: Callable[..., Any], result: Any) -> Callable[..., Any]:
        """The original, or nothing and this result."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return result if self.drops() else original(*args, **kwargs)

        return call
