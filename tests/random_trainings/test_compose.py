"""Scripts composed by seed: always the same, sound Python, with every alternative of the grammar."""

from __future__ import annotations

import ast
import re

import pytest

from tests.random_trainings.compose import compose
from tests.random_trainings.parts import EXTRAS, parts
from tests.random_trainings.plan import FOCI, draw

SEEDS = range(1, 301)
PLANS = [draw(seed) for seed in SEEDS]


def test_a_seed_always_gives_the_same_script() -> None:
    assert [compose(seed) for seed in range(1, 30)] == [compose(seed) for seed in range(1, 30)]


def test_other_seeds_give_other_scripts() -> None:
    assert len({compose(seed) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", [*SEEDS, 10_007, 99_991])
def test_a_script_is_sound_python_that_can_leave_each_part_out(seed: int) -> None:
    text = compose(seed)
    compile(text, f"train-{seed}.py", "exec")
    assert "$" not in text
    for part in parts(draw(seed)):
        assert f'"{part.name}"' in text, f"nothing in the script leaves {part.name} out"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_name_is_used_that_the_script_does_not_have(seed: int) -> None:
    tree = ast.parse(compose(seed))
    stored = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            stored.add(node.name)
        elif isinstance(node, ast.arg):
            stored.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            stored |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    used = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert used - stored <= set(dir(__builtins__)) | set(__builtins__) | {"__file__", "__name__"}


@pytest.mark.parametrize(
    ("choice", "alternatives"),
    [
        ("focus", set(FOCI)),
        ("step", {"standard", "accumulate", "closure", "compiled", "manual", "gan", "rl"}),
        ("loop", {"epochs", "stream", "next", "call", "slices", "rl"}),
        ("access", {"map", "iterable", "generator", "function", "sliced", "none"}),
        ("maker", {"loop", "workers", "thread"}),
        ("store", {"memory", "files", "direct", "memmap", "http", "none"}),
        ("layout", {"flat", "main", "functions", "class", "epoch", "ranks"}),
        ("model", {"mlp", "conv", "transformer", "lstm", "bag"}),
        ("optimizer", {"sgd", "momentum", "adamw", "lbfgs", "none"}),
        ("launcher", {"none", "spawn", "torchrun"}),
        ("start", {"fork", "spawn"}),
        ("threads", {None, 1, 4}),
        ("held_out", {"loader", "memory"}),
    ],
)
def test_every_alternative_is_drawn(choice: str, alternatives: set[object]) -> None:
    assert {getattr(plan, choice) for plan in PLANS} == alternatives


def test_every_extra_is_drawn() -> None:
    assert {name for plan in PLANS for name in plan.extras} == set(EXTRAS)


def test_most_trainings_have_the_threads_that_users_have() -> None:
    default = [plan for plan in PLANS if plan.threads is None]
    assert len(default) > len(PLANS) / 2


def test_authors_differ_in_names_and_style() -> None:
    texts = [compose(seed) for seed in SEEDS]
    for name in ("def fit(", "def run_epoch(", "def train_one_epoch(", "def loop(", "def main("):
        assert any(name in text for text in texts), name
    assert any("ArgumentParser" in text for text in texts)
    assert any(re.search(r"^  \w", text, re.MULTILINE) for text in texts)
    assert any("__name__" not in text for text in texts)


def test_the_clock_is_written_by_rank_nought_alone() -> None:
    for plan in PLANS:
        if plan.launcher != "none":
            assert re.search(r"if rank == 0:\n +finish\(\)", compose(plan.seed))
