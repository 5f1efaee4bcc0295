"""What is seen of ``bdoc prove`` while it works: one line on a terminal, else a line for each run."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ..model.proof import Arm, Attempt, Gain
from .output import complain, screen

if TYPE_CHECKING:
    from types import TracebackType

    from ..model.proof import Plan
    from .proving import Proving


class ProvingLine:
    """Stderr while remedies are tried; nothing where it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> ProvingLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def follow(self, arm: Arm, proving: Proving, plan: Plan) -> None:
        """An arm is being run."""
        from ..prove.gains import gain_of, readings

        if self._live:
            known = [(one, gain_of(one.id, readings(proving.attempts, one.scope))) for one in plan.arms]
            gains = [(one.id, gain) for one, gain in known if gain is not None]
            share = proving.spent_s() / proving.budget_s if proving.budget_s > 0 else 1.0
            self.show(arm.id, share, proving.left_s(), gains)

    def show(
        self, doing: str, share: float, left_s: float | None, known: list[tuple[str, Gain]] | None = None
    ) -> None:
        """Draw the line anew in place."""
        if self._live:
            from ..render.proof.line import proving_line

            shown = screen(sys.stderr)
            text = proving_line(doing, share, left_s, known or [], shown.width, shown.encoding)
            self._write(f"\r\x1b[2K{text}")
            self._shown = True

    def tell(self, attempt: Attempt) -> None:
        """A run is over."""
        if not self._quiet and not self._live:
            from ..render.proof.line import attempt_line

            complain(attempt_line(attempt))

    def note(self, text: str) -> None:
        """One line that stays."""
        if not self._quiet:
            self.clear()
            complain(text)

    def say(self, text: str) -> None:
        """Something longer, in between."""
        self.clear()
        self._write(text)

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            self._write("\r\x1b[2K")
            self._shown = False

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError, AttributeError):
            encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
            sys.stderr.buffer.write(text.encode(encoding, "backslashreplace"))
            sys.stderr.flush()
