"""``%%bdoc`` in IPython: watches one cell, and shows the page under it."""

from __future__ import annotations

from typing import Any

from .within import Watch


def register(shell: Any) -> None:
    """Give the shell its magic."""

    def bdoc(line: str, cell: str) -> None:
        """Watch this cell and show what limits its training; options as of ``bdoc run``.

        %%bdoc [-o PATH] [--no-profiler] [--no-py-spy] [--no-paths] [--calibrate] [--no-calibrate]
               [--data-fn MODULE:FUNCTION]
        """
        watch = Watch({"line": line.split()})
        watch.start()
        failed = True
        try:
            done = shell.run_cell(cell)
            failed = not done.success
        finally:
            watch.stop(failed)
        watch.show()

    shell.register_magic_function(bdoc, "cell", "bdoc")
