"""Lets others find a run, hands them what it has measured while they watch, and tells them how it ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..launch import run_registry
from ..launch.masking import mask
from ..launch.run_registry import Onlookers
from ..launch.supervise import Ended
from ..model.live import Announcement, Ending, Handover, Lifetime
from ..sense.machine import describe_machine

if TYPE_CHECKING:
    from ..model.run import Gap, Machine
    from .session import Session


class Presence:
    """What one session shows to the world. Nothing of this reaches the training."""

    def __init__(self, folder: Path, session: Session, child: int) -> None:
        self._folder, self._session = folder, session
        self._onlookers = Onlookers(folder)
        self._described: tuple[Machine, list[Gap]] | None = None
        ourselves = run_registry.lifetime(os.getpid())
        if ourselves is not None:  # without /proc nobody could tell us from a later process
            run_registry.announce(folder, _said(session, ourselves, child))

    def look(self, now_ns: int) -> None:
        """Called now and then while the training runs."""
        self._onlookers.look(now_ns, lambda: self._seen(now_ns))

    def end(self, ended: Ended, stopped_by: str | None) -> None:
        """The training has ended."""
        run_registry.announce_end(self._folder, Ending(ended.exit_status, ended.signal, stopped_by))

    def _seen(self, now_ns: int) -> Handover:
        """What a watcher needs to say the same as the report would."""
        if self._described is None:
            self._described = describe_machine()
        machine, unknown = self._described
        sensors, windows = self._session.sensors, self._session.windows
        gaps = [*self._session.gaps, *unknown]
        gaps += windows.gaps if windows is not None else []
        gaps += sensors.gaps() if sensors is not None else []
        return Handover(
            now_ns,
            machine,
            samples=sensors.samples if sensors is not None else [],
            stacks=windows.stacks if windows is not None else [],
            windows=windows.windows if windows is not None else [],
            gaps=gaps,
            supervisor_cpu_s=self._session.spent_s(),
        )


def _said(session: Session, ourselves: Lifetime, child: int) -> Announcement:
    from .session import bounded

    return Announcement(
        supervisor=ourselves,
        place=run_registry.here(),
        command=bounded(mask(session.command)),
        script=session.script,
        cwd=session.cwd,
        started_at=session.started_at,
        origin_ns=session.origin_ns,
        output=os.path.join(session.cwd, session.options.output),
        training=run_registry.lifetime(child),
        max_steps=session.options.max_steps,
        max_seconds=session.options.max_seconds,
        bdoc=__version__,
    )
