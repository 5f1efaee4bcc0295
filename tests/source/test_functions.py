"""The source of functions that were seen is kept: bounded, without comments, secrets masked."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.launch.masking import mask
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.instruments import Operation, Stack
from bottleneck_doctor.source.code import tree_of
from bottleneck_doctor.source.functions import FUNCTIONS_AT_MOST, LETTERS_AT_MOST, read_sources
from bottleneck_doctor.source.purpose import trainers

SCRIPT = '''\
import torch

class Pole:
    @property
    def state(self):
        """What nobody else need read."""
        token = "hf_abcdefghijklmnopqrst"  # of my own account
        return [
            self.x for _ in range(3)  # three
        ]

def main():
    password = "swordfish"
    login(api_key="hunter2", name="me")
    for step in range(10):
        model.fit(step)

if __name__ == "__main__":
    main()
'''


def seen(file: str, *frames: tuple[str, int], count: int = 10) -> Stack:
    return Stack(1, "trainer", "MainThread", [f"{name} ({file}:{line})" for name, line in frames], count)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(SCRIPT)
    return str(tmp_path / "train.py")


def kept(script: str, *stacks: Stack) -> dict[str, FunctionSource]:
    return {one.function: one for one in read_sources(list(stacks), [], "/", mask)}


def test_functions_are_kept_with_their_lines(script: str) -> None:
    found = kept(script, seen(script, ("<module>", 19), ("main", 16), ("Pole.state", 9)))
    assert {name: one.first for name, one in found.items()} == {"<module>": 18, "main": 12, "state": 4}
    for one in found.values():
        assert tree_of(one).body
        assert len(one.text.splitlines()) in (2, 5, 7)
    assert found["main"].text.splitlines()[4].strip() == "model.fit(step)"


def test_a_comprehension_belongs_to_its_function(script: str) -> None:
    assert set(kept(script, seen(script, ("Pole.state.<locals>.<listcomp>", 9)))) == {"state"}


@pytest.mark.parametrize("secret", ["hf_abc", "my own account", "nobody else", "swordfish", "hunter2"])
def test_secrets_comments_and_docstrings_are_not_kept(script: str, secret: str) -> None:
    found = kept(script, seen(script, ("main", 16), ("Pole.state", 9)))
    assert len(found) == 2
    assert not any(secret in one.text for one in found.values())


def test_nothing_is_kept_without_a_mask_or_of_libraries_and_threads_that_wait(
    script: str, tmp_path: Path
) -> None:
    stack = seen(script, ("main", 16))
    assert read_sources([stack], [], "/", None) == []
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "x.py").write_text(SCRIPT)
    assert kept(script, seen(str(library / "x.py"), ("main", 16))) == {}
    waits = Stack(1, "trainer", "Thread-1", stack.frames, 10, running=0)
    assert kept(script, waits) == {}


def test_a_thread_that_feeds_the_loop_is_kept(script: str) -> None:
    frames = seen(script, ("main", 16)).frames
    assert set(kept(script, Stack(1, "trainer", "feeder", frames, 10, running=8))) == {"main"}


def test_lines_that_write_are_kept_too(script: str) -> None:
    call = Operation("logging", 1, 0, "main", 3, 0.1, 0.1, 0.1, Location(script, 16, "main"))
    assert [one.function for one in read_sources([], [call], "/", mask)] == ["main"]


def test_what_is_kept_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    many = "".join(f"def f{place}():\n    return {place}\n" for place in range(60))
    body = "".join(f"    value_{place} = compute_{place}(value_{place})\n" for place in range(2000))
    loop = "    for step in range(10):\n        train(step)\n"
    file.write_text(f"{many}def main():\n{body}{loop}")
    stacks = [seen(str(file), (f"f{place}", 2 * place + 2), count=100 - place) for place in range(60)]
    found = kept(str(file), *stacks)
    assert len(found) == FUNCTIONS_AT_MOST
    assert "f0" in found
    (long,) = kept(str(file), seen(str(file), ("main", 120 + 1 + 2000 + 2))).values()
    assert "train(step)" in long.text
    assert len(long.text) < LETTERS_AT_MOST


def test_a_script_that_changed_meanwhile_is_not_quoted_as_something_else(script: str) -> None:
    assert kept(script, seen(script, ("evaluate", 16))) == {}
    Path(script).write_text("def main(:\n")
    assert kept(script, seen(script, ("main", 1))) == {}


def test_a_function_that_a_variable_holds_has_its_name_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "def make():\n    def inner(x):\n        x.backward()\n    return inner\n\n"
        "do_step = make()\nfor x in data:\n    loss = do_step(x)\n    stamp(x)\n"
    )
    file = str(tmp_path / "train.py")
    found = kept(file, seen(file, ("<module>", 8), ("make.<locals>.inner", 3)))
    assert found["inner"].alias == "do_step"
    torn = seen(file, ("<module>", 9), ("make.<locals>.inner", 3), count=1)
    assert (
        kept(file, torn, seen(file, ("<module>", 8), ("make.<locals>.inner", 3)))["inner"].alias == "do_step"
    )
    assert found["<module>"].alias == ""
    assert trainers(tuple(found.values())) == {"inner", "do_step"}
