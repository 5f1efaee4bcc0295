"""What annotations are made of; None at run time, since `typing` alone would cost each start milliseconds."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import Any

    Table = Mapping[str, Callable[[Any], Any]]  # {module name: callback(module)}, called once it is imported
    Done = Callable[..., None]  # what a treatment calls: applied, or why not
else:
    Any = Callable = Generator = Iterable = Iterator = Mapping = Sequence = ModuleSpec = FrameType = (
        ModuleType
    ) = None
    Table = Done = None

__all__ = [
    "TYPE_CHECKING", "Any", "Callable", "Done", "FrameType", "Generator", "Iterable", "Iterator", "Mapping",
    "ModuleSpec", "ModuleType", "Sequence", "Table",
]  # fmt: skip
