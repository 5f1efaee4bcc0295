"""Defaults from ``[tool.bdoc]`` in the user's pyproject.toml: the same names as the options."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, field
from typing import Any

from ..model.errors import UsageError

TABLE = "[tool.bdoc]"
KINDS: dict[str, tuple[type, ...]] = {
    "output": (str,),
    "format": (str,),
    "python": (str,),
    "max-data-wait": (int, float),
    "max-regression": (int, float),
    "max-seconds": (int, float),
    "max-steps": (int,),
    "quiet": (bool,),
    "no-profiler": (bool,),
    "no-py-spy": (bool,),
    "cprofile": (bool,),
    "no-paths": (bool,),
    "calibrate": (bool,),
    "no-calibrate": (bool,),
    "baseline": (list,),
    "fail-if": (list,),
    "data-fn": (list,),
}
CALLED = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of strings",
}


@dataclass(frozen=True)
class Settings:
    """What an option is when the command line does not say. ``file`` is "" when there is no file."""

    file: str = ""
    output: str = "profile.json"
    format: str = "terminal"
    python: str | None = None
    max_data_wait: float | None = None
    max_regression: float | None = None
    max_seconds: float | None = None
    max_steps: int | None = None
    quiet: bool = False
    no_profiler: bool = False
    no_py_spy: bool = False
    cprofile: bool = False
    no_paths: bool = False
    calibrate: bool = False
    no_calibrate: bool = False
    baseline: list[str] = field(default_factory=list)
    fail_if: list[str] = field(default_factory=list)
    data_fn: list[str] = field(default_factory=list)


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
            return Settings(file, **{_name(key): _checked(key, table[key], file) for key in table})
        if folder == os.path.dirname(folder):
            return Settings()
        folder = os.path.dirname(folder)


def origin(settings: Settings, key: str) -> str:
    """How an error names a value that came from the file."""
    return f"{settings.file} {TABLE} {key}"


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
    if key not in KINDS:
        import difflib

        near = difflib.get_close_matches(key.replace("_", "-"), KINDS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"known are {', '.join(KINDS)}"
        raise UsageError(f"{file} {TABLE}: no key {key!r}, {hint}")
    kinds = KINDS[key]
    if list in kinds and isinstance(value, str):
        return [value]
    wrong_bool = isinstance(value, bool) and bool not in kinds
    wrong_item = isinstance(value, list) and not all(isinstance(item, str) for item in value)
    if not isinstance(value, kinds) or wrong_bool or wrong_item:
        raise UsageError(f"{file} {TABLE} {key} = {value!r}: expected {_called(kinds)}")
    return value


def _called(kinds: tuple[type, ...]) -> str:
    return " or ".join(CALLED[kind] for kind in kinds if kind is not int or len(kinds) == 1)


def _name(key: str) -> str:
    return key.replace("-", "_")
