"""A function of the user's, marked as the source of batches, is a loader."""

from __future__ import annotations

from typing import Any

import pytest

from bottleneck_doctor.model.loops import Loop
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import PRELUDE, loader_of, loops_over, profile_of, said, watched

SCRIPT = (
    PRELUDE
    + """
def get_batch(split, *, size=4):
    \"\"\"Rows of our own.\"\"\"
    if split == "broken":
        raise OSError("no such split")
    time.sleep(0.002)
    return torch.randn(size, 4)

def broken():
    try:
        get_batch("broken")
    except OSError as error:
        return str(error)

for step in range(60):
    train_on(get_batch("train", size=8))
say(name=get_batch.__name__, doc=get_batch.__doc__, failed=broken(), shape=list(get_batch("train").shape))
"""
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Profile]:
    told = watched(tmp_path_factory.mktemp("function"), SCRIPT, BDOC_DATA_FN="__main__:get_batch")
    return said(told), profile_of(told)


@pytest.fixture
def loop(run: tuple[dict[str, Any], Profile]) -> Loop:
    (found,) = loops_over(run[1], "get_batch")
    return found


def test_the_function_is_the_users_still(run: tuple[dict[str, Any], Profile]) -> None:
    assert run[0] == {
        "name": "get_batch",
        "doc": "Rows of our own.",
        "failed": "no such split",
        "shape": [4, 4],
    }


def test_it_is_a_loader_at_its_definition(run: tuple[dict[str, Any], Profile]) -> None:
    loader = loader_of(run[1], "get_batch")
    assert (loader.kind, loader.num_workers) == ("function", 0)
    assert loader.location is not None
    line = SCRIPT.splitlines().index("def get_batch(split, *, size=4):") + 1
    assert (loader.location.line, loader.location.function) == (line, "get_batch")


def test_its_steps_and_waits_are_counted(loop: Loop) -> None:
    assert loop.role == "train"
    assert loop.steps == pytest.approx(59, abs=3), "wrapped when the training begins to move"
    assert sum(loop.table.wait_s) >= 0.002 * sum(loop.table.steps)
    assert sum(loop.table.wait_s) <= sum(loop.table.wall_s)
