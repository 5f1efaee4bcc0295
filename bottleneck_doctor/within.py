"""Watches a block of a running process: only the hooks are in it, a second process does the rest."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .inject.sitecustomize import admit

if TYPE_CHECKING:
    from types import TracebackType

    from .model.report import Report

AGENT = "_bdoc_agent"  # as the door calls it
# Not `-m`, which would put the working directory first on the path, and whatever lies there.
SUPERVISOR = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from bottleneck_doctor.commands.block_supervisor import main; main()"
)
CELLS_AT_MOST, LETTERS_AT_MOST = 200, 100_000  # of a notebook that are looked into, and of one of them
# The page in a notebook: what is in it can reach nothing outside.
FRAME = (
    '<iframe srcdoc="{}" sandbox="allow-scripts" style="width:100%;height:900px;border:0"></iframe>'
    "<p>With charts: <code>bdoc view {}</code></p>"
)
_open: list[Watch] = []  # the one whose block runs


class Watch:
    """One block that is watched: ``with watch() as w``, then ``w.report``, ``w.path``, ``w.show()``.

    ``path`` is that of the profile, "" while there is none; ``problem`` says why there is none. ``failed`` is
    whether the block ended with an exception.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.path = self.problem = ""
        self.failed = False
        self._options = options
        self._pid = 0
        self._watcher: subprocess.Popen[str] | None = None
        self._environ: dict[str, str] = {}
        self._before: dict[str, str | None] = {}
        self._report: Report | None = None

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.failed = self.failed or kind is not None
        self.stop()

    def start(self) -> None:
        """Watch from now on. What cannot be had is missing in the report; the training goes on without.

        Raises RuntimeError where this process is watched already, ValueError for a wrong option.
        """
        if watched():
            raise RuntimeError("this process is watched already, by `bdoc run` or by another watch()")
        if self._pid:
            raise RuntimeError("a watch() is for one block: make another one")
        self._pid = os.getpid()
        answer = self._ask_to_watch()
        if "refused" in answer:
            raise ValueError(answer["refused"])
        self.problem = answer.get("problem", "")
        if self.problem:
            return
        _open.append(self)
        self._environ = answer["environ"]
        self._before = {name: os.environ.get(name) for name in self._environ}
        os.environ.update(self._environ)
        if self._environ:
            admit(self._environ["BDOC_RUN"], self._environ["BDOC_AGENT"])

    def stop(self) -> None:
        """Take every hook off again, and wait until the profile is there."""
        if self not in _open or self._pid != os.getpid():  # a child forked since leaves it alone
            return
        ended_ns = time.monotonic_ns()
        try:
            if AGENT in sys.modules:
                import_module(f"{AGENT}.leaving").take_off()
        finally:
            _open.remove(self)
            self._restore()
        answer = self._tell({"ended_ns": ended_ns, "failed": self.failed, "cells": cells()})
        self.path, self.problem = answer.get("path", ""), answer.get("problem", "")
        self._close()

    @property
    def report(self) -> Report:
        """What ``bdoc report`` says of ``path``. Raises ValueError where there is none, with the reason."""
        if not self.path:
            raise ValueError(f"there is no report: {self.problem or 'the block has not ended'}")
        if self._report is None:
            from .commands.output import report_of

            self._report = report_of(self.path)
        return self._report

    def show(self) -> None:
        """The page, in a notebook; the words of ``bdoc report`` on stderr, anywhere else."""
        if _shell() is not None:
            from IPython.display import display

            display(self)
            return
        from .commands.output import complain, screen

        try:
            seen = screen(sys.stderr)
            print(self._words(seen.width, seen.color, seen.encoding), end="", file=sys.stderr)
        except ValueError as problem:
            complain(str(problem))

    def __repr__(self) -> str:
        outcome = f"profile in {self.path}" if self.path else self.problem or "its block has not ended"
        return f"<watch of bdoc: {outcome}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """How IPython shows it: the page where there can be one, words in a terminal."""
        if not self.path:
            return {"text/plain": repr(self)}
        from .render.compose import compose
        from .render.document import WHOLE
        from .render.html import html_page

        page = html_page(compose(self.report, WHOLE), self.report, None)
        return {
            "text/plain": self._words(80, False, "utf-8"),
            "text/html": FRAME.format(html.escape(page), html.escape(self.path)),
        }

    def _words(self, width: int, color: bool, encoding: str) -> str:
        from .render.ends import shown

        screen = {"width": width, "color": color, "encoding": encoding}
        return shown(self.report, "terminal", self.path, screen)

    def _ask_to_watch(self) -> dict[str, Any]:
        """Start the supervising process; what it answers once it is ready."""
        found = os.pathsep.join(one or os.getcwd() for one in sys.path)  # where it is to find what we did
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR], stdin=subprocess.PIPE, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONPATH": found},
            )  # fmt: skip
        except (OSError, TypeError, ValueError) as problem:  # an embedded Python may have no executable
            return {"problem": f"the process that watches this one could not be started: {problem}"}
        argv, script = _command()
        path = os.environ.get("PYTHONPATH", "")
        answer = self._tell(
            {"pid": os.getpid(), "argv": argv, "script": script, "path": path, "options": self._options}
        )
        self._watcher.wait()  # it has made itself an orphan
        if "environ" not in answer:
            self._close()
        return answer

    def _tell(self, message: dict[str, Any]) -> dict[str, Any]:
        watcher = self._watcher
        assert watcher is not None and watcher.stdin is not None and watcher.stdout is not None
        try:
            watcher.stdin.write(json.dumps(message) + "\n")
            watcher.stdin.flush()
            answer: dict[str, Any] = json.loads(watcher.stdout.readline())
        except (OSError, ValueError):
            return {"problem": "the process that watched this one is gone"}
        return answer

    def _close(self) -> None:
        for stream in (self._watcher.stdin, self._watcher.stdout) if self._watcher else ():
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def _restore(self) -> None:
        """The environment as it was, except for variables that were changed since."""
        for name, value in self._environ.items():
            if os.environ.get(name) == value:
                del os.environ[name]
                os.environ.update({name: before} if (before := self._before[name]) is not None else {})


def watched() -> bool:
    """Whether this process is watched, by ``bdoc run`` or in a block."""
    return bool(getattr(sys, "_bdoc_armed", False) or _open)


def _command() -> tuple[list[str], str | None]:
    """The command line and the script in it. Of a kernel: the notebook's name, if that is known."""
    if _shell() is not None and "ipykernel" in sys.modules:
        return [os.path.basename(os.environ.get("JPY_SESSION_NAME", "")) or "notebook"], None
    script = sys.argv[0] if hasattr(sys.modules.get("__main__"), "__file__") else None
    return getattr(sys, "orig_argv", [sys.executable, *sys.argv]), script


def cells() -> dict[str, tuple[str, str]]:
    """Of the notebook that runs here: {path of a cell's code: (what it is called, its text)}."""
    shell = _shell()
    called = getattr(getattr(shell, "compile", None), "format_code_name", None)
    if called is None:
        return {}
    linecache: Any = sys.modules["linecache"]
    found = {}
    for path, entry in list(linecache.cache.items())[-CELLS_AT_MOST:]:
        name = called(path)
        text = "".join(entry[2]) if len(entry) > 2 else ""
        if name and path.startswith("/") and len(text) <= LETTERS_AT_MOST:
            found[path] = (str(name[-1]), text)
    return found


def _shell() -> Any:
    """IPython's shell, where this is one."""
    ipython: Any = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
