"""Defaults from ``[tool.bdoc]`` in the user's pyproject.toml: the same names as the options."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..model.errors import UsageError
from .options import KEYS, Option

T = TypeVar("T")

TABLE = "[tool.bdoc]"
CALLED = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of strings",
}


@dataclass(frozen=True)
class Settings:
    """What the table says, by its keys. ``file`` is "" when there is none."""

    file: str = ""
    said: dict[str, Any] = field(default_factory=dict)

    def of(self, option: Option[T], typed: object = None) -> T:
        """An option's value: what was ``typed``, else what the table says, else its default."""
        table = self.said.get(option.name) if option.in_table else None
        for value, origin in ((typed, f"--{option.name}"), (table, f"{self.file} {TABLE} {option.name}")):
            if value is not None and value is not False and value != []:
                found = option.read(value, origin)
                if found is not None:
                    return found
        return option.default


def load(start: str | None = None) -> Settings:
    """The settings of the nearest pyproject.toml, from ``start`` upwards, that has the table."""
    try:
        folder = os.path.abspath(start or os.getcwd())
    except OSError:  # the working directory was removed under us
        return Settings()
    while True:
        file = os.path.join(folder, "pyproject.toml")
        table = _table(file) if os.path.isfile(file) else None
        if table is not None:
            return Settings(file, {key: _checked(key, value, file) for key, value in table.items()})
        if folder == os.path.dirname(folder):
            return Settings()
        folder = os.path.dirname(folder)


def _table(file: str) -> dict[str, Any] | None:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        with open(file, "rb") as stream:
            content = toml.load(stream)
    except (OSError, ValueError, RecursionError) as problem:
        raise UsageError(f"cannot read {file}: {problem}") from None
    tool = content.get("tool")
    table = tool.get("bdoc") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{file}: {TABLE} is not a table")
    return table


def _checked(key: str, value: Any, file: str) -> Any:
    """The value in its option's type; lists may be given as one string."""
    if key not in KEYS:
        import difflib

        near = difflib.get_close_matches(key.replace("_", "-"), KEYS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"known are {', '.join(KEYS)}"
        raise UsageError(f"{file} {TABLE}: no key {key!r}, {hint}")
    kinds = KEYS[key].in_table
    if list in kinds and isinstance(value, str):
        return [value]
    wrong_bool = isinstance(value, bool) and bool not in kinds
    wrong_item = isinstance(value, list) and not all(isinstance(item, str) for item in value)
    if not isinstance(value, kinds) or wrong_bool or wrong_item:
        raise UsageError(f"{file} {TABLE} {key} = {value!r}: expected {_called(kinds)}")
    return value


def _called(kinds: tuple[type, ...]) -> str:
    return " or ".join(CALLED[kind] for kind in kinds if kind is not int or len(kinds) == 1)
