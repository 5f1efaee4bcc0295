"""Builds trees that look like /proc and /sys, and children that wait in one known way."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Plant = Callable[[dict[str, str]], Path]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Writes files below a root of their own and returns the root; a path that ends in / becomes a folder."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "root" / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "root"

    return write


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python children that print a line once they do what they are for; ends them afterwards."""
    children: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield run
    for child in children:
        with child:  # closes the pipes: a grandchild that reads from its input ends too
            child.kill()
