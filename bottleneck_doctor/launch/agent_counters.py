"""Reads the counters that each agent keeps in its file's header during the run; and writes orders."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

from ..agent import wire
from ..model.run import Gap, Progress

PROCESSES_AT_MOST = 1024  # that live at one time
KEPT_OF_ENDED = 256  # files of processes that did not train: so many of the first, and as many of the last
STOPPED = '{"fact": "stopped"'


class Board:
    """The headers of one run folder. Nothing here raises: a file that is not there yet is not there.

    Only the supervisor is ``in_command``: other readers must not write orders.
    """

    def __init__(self, folder: Path, in_command: bool = True) -> None:
        self._folder = folder
        self._maps: dict[str, tuple[int, mmap.mmap]] = {}
        self._ended: list[str] = []  # that did not train, in the order of their end
        self._removed = 0  # files of such processes
        self._control = _control(folder) if in_command else None

    def refresh(self) -> None:
        """Look for processes that appeared since the last time."""
        known = {*self._maps, *self._ended}
        for name in self._names(".rows"):
            if name not in known and len(self._maps) < PROCESSES_AT_MOST:
                self._open(name)
        self._let_go()

    def _let_go(self) -> None:
        """Close the files of ended processes that did not train, and delete all but the first and last 256:
        workers that are started anew for each epoch would fill the disk."""
        for name, (pid, header) in list(self._maps.items()):
            if wire.WORD.unpack_from(header, wire.FIRST)[0] or os.path.exists(f"/proc/{pid}"):
                continue
            del self._maps[name]
            header.close()
            self._ended.append(name)
            if self._control is not None and len(self._ended) > 2 * KEPT_OF_ENDED:
                self._remove(self._ended.pop(KEPT_OF_ENDED))

    def _remove(self, name: str) -> None:
        self._removed += 1
        for one in (name, name.removesuffix(".rows") + ".facts"):
            with suppress(OSError):
                os.unlink(self._folder / one)

    def _names(self, suffix: str) -> list[str]:
        try:
            with os.scandir(self._folder) as entries:
                return [entry.name for entry in entries if entry.name.endswith(suffix)]
        except OSError:
            return []

    def _open(self, name: str) -> None:
        try:
            with open(self._folder / name, "rb") as file:
                header = mmap.mmap(file.fileno(), wire.HEADER_BYTES, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return
        magic, version, _, pid, _, _ = wire.IDENTITY.unpack_from(header, 0)
        if magic == wire.MAGIC and version == wire.VERSION:
            self._maps[name] = (pid, header)

    def gaps(self) -> list[Gap]:
        """What was not kept."""
        if not self._removed:
            return []
        why = f"of those that ended only the first {KEPT_OF_ENDED} and the last are kept, to spare the disk"
        return [Gap(f"{self._removed} worker processes", why)]

    def fetching(self) -> list[tuple[int, int]]:
        """(pid, native thread id) of every thread that is inside a fetch right now."""
        return self._threads(wire.FETCHING)

    def training(self) -> list[tuple[int, int]]:
        """(pid, native thread id) of every thread that runs a training loop."""
        return self._threads(wire.TRAINER)

    def feeding(self) -> list[tuple[int, int]]:
        """(pid, native thread id) of every thread that a training loop waits for, in a queue or a future."""
        return self._threads(wire.FEEDER)

    def _threads(self, word: int) -> list[tuple[int, int]]:
        known = ((pid, wire.WORD.unpack_from(header, word)[0]) for pid, header in self._maps.values())
        return [(pid, thread) for pid, thread in known if thread]

    def progress(self) -> list[Progress]:
        """Every process that trains, the furthest first."""
        here = sum(bool(wire.WORD.unpack_from(header, wire.WORLD)[0]) for _, header in self._maps.values())
        found = [_progress(pid, header, here) for pid, header in self._maps.values()]
        return sorted((one for one in found if one.steps), key=lambda one: (-one.trained, -one.steps))

    def stopped(self) -> bool:
        """Whether an agent has ended its training by our order."""
        return any(_says_stopped(self._folder / name) for name in self._names(".facts"))

    def stop_at(self, trained: int) -> None:
        """Order every training process to end when it has trained that many steps."""
        self._order(wire.STOP_AT, trained)

    def ask_for_profile(self, windows: int) -> None:
        """Request torch.profiler windows; ``windows`` is their number so far."""
        self._order(wire.PROFILE, windows)

    def _order(self, word: int, value: int) -> None:
        if self._control is not None:
            wire.WORD.pack_into(self._control, word, value)


def _control(folder: Path) -> mmap.mmap | None:
    try:
        with open(folder / "control", "w+b") as file:
            file.write(b"\0" * wire.CONTROL_BYTES)
            file.flush()
            return mmap.mmap(file.fileno(), wire.CONTROL_BYTES)
    except (OSError, ValueError):
        return None


def _says_stopped(facts: Path) -> bool:
    try:
        with open(facts, encoding="utf-8", errors="replace") as lines:
            return any(line.startswith(STOPPED) for line in lines)
    except OSError:
        return False


def _progress(pid: int, header: mmap.mmap, here: int) -> Progress:
    """One process's counters; ``here``: how many ranks are in this run."""

    def word(offset: int) -> int:
        return int(wire.WORD.unpack_from(header, offset)[0])

    return Progress(
        pid=pid,
        steps=word(wire.STEPS),
        trained=word(wire.TRAINED),
        wait_ns=word(wire.WAIT),
        first_ns=word(wire.FIRST),
        last_ns=word(wire.LAST),
        windows=word(wire.WINDOW),
        profiled=bool(word(wire.WINDOW_OPEN)),
        epoch_at=word(wire.EPOCH_AT),
        elsewhere=max(0, word(wire.WORLD) - here),
    )
