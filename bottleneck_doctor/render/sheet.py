"""Lines of styled text on a terminal's screen: wrapped, coloured or not, sayable in its encoding."""

from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import words

WIDEST = 100
NARROWEST = 20


class Sheet:
    """Lines of styled text, wrapped at ``width`` and sayable in ``encoding``; knows nothing of reports."""

    def __init__(self, width: int, color: bool, encoding: str) -> None:
        self.width = max(NARROWEST, min(width, WIDEST))
        self.encoding = encoding
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=self.width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )

    def line(
        self, *spans: str | tuple[str, str], indent: int = 0, lead: str = "", lead_style: str = ""
    ) -> None:
        """One paragraph; what wraps stays under the text, not under its ``lead``."""
        body = Text.assemble(*map(self._span, spans), overflow="fold")
        if not body.plain.strip():
            return
        if not indent and not lead:
            self._console.print(body)
            return
        grid = Table.grid(padding=0)
        grid.add_column(width=indent + cell_len(lead), no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(" " * indent + words.fit(lead, self.encoding), style=lead_style), body)
        self._console.print(grid)

    def verbatim(self, text: str, style: str = "") -> None:
        """One line that is never wrapped, for what is copied from the screen."""
        shown = Text(words.fit(text, self.encoding), style=style, overflow="ignore", no_wrap=True)
        self._console.print(shown, soft_wrap=True)

    def heading(self, *spans: str | tuple[str, str]) -> None:
        """A section starts after an empty line."""
        self._console.print()
        self.line(*spans)

    def drawn(self) -> str:
        """Everything so far. Trailing blanks go: they are noise in files and in diffs."""
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines()) + "\n"

    def _span(self, span: str | tuple[str, str]) -> tuple[str, str]:
        text, style = (span, "") if isinstance(span, str) else span
        return words.fit(text, self.encoding), style
