"""A block of text that stays in its place on a terminal and is drawn anew, without flicker."""

from __future__ import annotations

from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text


class LiveBlock:
    """Draws over what it drew last; what stands above it, and the last state, stay on the screen."""

    def __init__(self, stream: TextIO, color: bool) -> None:
        self._console = Console(
            file=stream,
            force_terminal=True,
            color_system="standard" if color else None,
            no_color=not color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveBlock:
        self._live.start()
        self._console.show_cursor(True)  # whoever stops us with Ctrl-Z keeps a cursor
        return self

    def show(self, text: str) -> None:
        """Replace what is shown; the text may hold ANSI colours."""
        self._live.update(Text.from_ansi(text.rstrip("\n"), no_wrap=True, overflow="crop"), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
