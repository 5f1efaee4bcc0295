"""Callbacks wait for the user's import, and the import stays the user's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bottleneck_doctor.agent.importing import Finder


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def module(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(text)


def test_the_callback_gets_the_complete_module(tmp_path: Path) -> None:
    module(tmp_path, "wanted_one", "first = 1\nlast = 2\n")
    seen: list[ModuleType] = []
    Finder().add({"wanted_one": seen.append})
    assert not seen
    wanted = importlib.import_module("wanted_one")
    assert (seen, wanted.last) == ([wanted], 2)
    assert "exec_module" not in vars(wanted.__spec__.loader), "the loader is as it was"  # type: ignore[union-attr]


def test_a_module_that_is_there_already_is_called_back_at_once() -> None:
    seen: list[ModuleType] = []
    Finder().add({"json": seen.append})
    assert seen == [sys.modules["json"]]


def test_other_imports_pass_untouched(tmp_path: Path) -> None:
    module(tmp_path, "unwanted_one", "value = 1\n")
    Finder().add({"wanted_two": lambda module: None})
    assert importlib.import_module("unwanted_one").value == 1


def test_a_module_that_fails_fails_as_without_us(tmp_path: Path) -> None:
    module(tmp_path, "broken_one", "raise RuntimeError('theirs')\n")
    seen: list[ModuleType] = []
    Finder().add({"broken_one": seen.append, "missing_one": seen.append})
    with pytest.raises(RuntimeError, match="theirs"):
        importlib.import_module("broken_one")
    with pytest.raises(ModuleNotFoundError, match="missing_one"):
        importlib.import_module("missing_one")
    assert (seen, "broken_one" in sys.modules) == ([], False)


def test_a_callback_that_fails_is_not_noticed(tmp_path: Path) -> None:
    module(tmp_path, "wanted_three", "value = 3\n")

    def mistaken(module: ModuleType) -> None:
        raise RuntimeError("ours")

    Finder().add({"wanted_three": mistaken})
    assert importlib.import_module("wanted_three").value == 3


def test_two_tables_may_watch_one_module(tmp_path: Path) -> None:
    module(tmp_path, "wanted_four", "value = 4\n")
    seen: list[ModuleType] = []

    def mistaken(module: ModuleType) -> None:
        raise RuntimeError("ours")

    Finder().add({"wanted_four": mistaken, "json": seen.append}, {"wanted_four": seen.append})
    assert seen == [sys.modules["json"]]
    assert importlib.import_module("wanted_four") is seen[-1]
