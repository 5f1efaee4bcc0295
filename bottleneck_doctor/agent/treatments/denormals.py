"""Has the CPU take numbers too small to be normal for zero, in every thread. No options.

The switch belongs to a thread, and a new thread takes it from the one that starts it. So it is thrown before
torch has any, and stays where the script throws it back; workers throw it for themselves.
"""

from __future__ import annotations

from . import wrap

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """As soon as torch is there."""

    def act(torch: Any) -> None:
        done("" if torch.set_flush_denormal(True) else "this processor cannot")
        wrap(torch, "set_flush_denormal", _stays)

    return {"torch": act}


def _stays(original: Callable[[bool], bool]) -> Callable[[bool], bool]:
    return lambda mode: original(True)
