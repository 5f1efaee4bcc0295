"""Treatments of what a loop writes: logs in one step of many, checkpoints rarely, or by a thread."""

from __future__ import annotations

import copy
import os
import threading
from functools import partial

from ..hints import Any, Callable, Done, Table
from ..saving import LOGGING, written
from .hook_points import after_backward, at_saving, reported, together, wrap

WARNING = 30  # logging.WARNING; what is worse is never dropped


def rare_saving(options: dict[str, Any], done: Done) -> Table:
    """Saves a checkpoint once in ``every`` times, where it goes to the same file again.

    A file of a new name is always written, since the script may go on to rename or read it; so a training
    that gives each checkpoint its own name has none dropped. What lies in the file is an older state of the
    trial; a trial writes wherever the script does, and nowhere else.
    """
    every = int(options["every"])
    counts: dict[str, int] = {}

    def around(save: Callable[[Any], Any], thing: Any, target: Any) -> Any:
        if isinstance(target, (str, os.PathLike)):
            name = os.path.abspath(os.fspath(target))
            count = counts[name] = counts.get(name, 0) + 1
            if count % every != 1 and every != 1 and os.path.exists(name):
                done()
                return None
        return save(thing)

    return at_saving(around)


def saving_aside(options: dict[str, Any], done: Done) -> Table:
    """No options: what a checkpoint holds is copied in the loop, and a thread writes it.

    Only a file that is there already, and is written again, is written aside: a new one may be renamed or
    read right after. The next checkpoint waits for the last one, and the process for the last of all.
    """
    threads: list[threading.Thread] = []

    def around(save: Callable[[Any], Any], thing: Any, target: Any) -> Any:
        again = isinstance(target, (str, os.PathLike)) and os.path.exists(target)
        while threads:
            threads.pop().join()
        if not again:
            return save(thing)
        copied = reported(copy.deepcopy, done, thing)
        if copied is None:
            return save(thing)

        def write() -> None:
            save(copied)
            done()

        threads.append(threading.Thread(target=reported, args=(write, done)))
        threads[-1].start()
        return None

    return at_saving(around)


def rare_logging(options: dict[str, Any], done: Done) -> Table:
    """Logs in one of ``every`` steps: the others' records are not made, bars not drawn, files not forced to
    the disk.

    Warnings and worse are logged always, and so is what other threads log and what comes before the first
    backward pass. What the loop computes only to log it, as ``loss.item()`` in the call's arguments, is
    computed all the same: the gain measured is a lower bound.
    """
    interval = _LoggingInterval(int(options["every"]), done)

    def record(original: Callable[..., bool], logger: Any, level: int) -> bool:
        enabled = original(logger, level)
        return enabled and (level >= WARNING or not interval.drops())

    def fsync(original: Callable[..., None], fd: Any) -> None:
        # Only a log need not be forced to the disk: a checkpoint is on it when the script goes on.
        if written.kind(fd) != LOGGING or not interval.drops():
            original(fd)

    def unless_dropped(result: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return result if interval.drops() else original(*args, **kwargs)

    def tensorboard(module: Any) -> None:
        for name in ("add_event", "flush"):
            wrap(module.EventFileWriter, name, partial(unless_dropped, None))

    return together(
        after_backward(interval.passed, done),
        {
            "logging": lambda module: wrap(module.Logger, "isEnabledFor", record),
            "os": lambda module: wrap(module, "fsync", fsync),
            "tqdm.std": lambda module: wrap(module.tqdm, "display", partial(unless_dropped, True)),
            "tensorboard.summary.writer.event_file_writer": tensorboard,
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
