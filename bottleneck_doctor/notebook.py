"""``%%bdoc`` in IPython: watches one cell, and shows the page under it."""

from __future__ import annotations

import shlex
from typing import Any

from .within import Watch


def register(shell: Any) -> None:
    """Give the shell its magic."""

    def bdoc(line: str, cell: str) -> None:
        """Watch this cell and show what limits its training; the options are those of ``bdoc run``.

        %%bdoc [-o PATH] [--no-profiler] [--no-py-spy] [--no-paths]
               [--data-fn MODULE:FUNCTION]
        """
        watch = _begun(line)
        try:
            done = _run(shell, cell)
            watch.failed = not done.success
        finally:
            watch.stop()
        watch.show()
        done.raise_error()

    shell.register_magic_function(bdoc, "cell", "bdoc")


def _begun(line: str) -> Watch:
    """A block that is watched from now on; what is wrong with its options is one line below the cell."""
    from IPython.core.error import UsageError

    try:
        watch = Watch({"line": shlex.split(line)})
        watch.start()
    except (RuntimeError, ValueError) as refused:
        raise UsageError(f"%%bdoc: {refused}") from None
    return watch


def _run(shell: Any, cell: str) -> Any:
    """Run the cell as any other. What it raises is raised and shown behind the page, once."""
    shell.showtraceback = shell.showsyntaxerror = lambda *_, **__: None
    try:
        return shell.run_cell(cell)
    finally:
        del shell.showtraceback, shell.showsyntaxerror
