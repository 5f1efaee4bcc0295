"""Tells whether a loop changes what it gets its batches from: a replay buffer cannot be moved to workers."""

from __future__ import annotations

import ast

from ..model.profile import Outside, Profile
from . import code
from .loop_parts import parse_frame
from .outside import gap_stacks

MODULES = frozenset("torch np numpy random time math F nn os sys".split())  # by their usual names


def is_fed_back(profile: Profile, outside: Outside | None) -> bool:
    """Whether the loop around the line that gets a batch, as in ``log.sample(n)``, also calls another method
    of the same object and hands it something, as in ``log.update(index, error)``."""
    lines = {one.frames[0] for one in gap_stacks(profile, outside) if one.frames} if outside else set()
    for place in map(parse_frame, lines):
        source = code.source_at(profile.sources, place) if place is not None else None
        tree = code.tree_of(source) if source is not None else None
        around = code.statements_around(tree, place.line) if tree is not None and place is not None else []
        loops = [one for one in around if isinstance(one, ast.For | ast.While)]
        if not loops or loops[-1] is around[-1]:  # what a loop's head goes through is begun before its steps
            continue
        if _methods(around[-1], False) & _changed(loops[-1], around[-1]):
            return True
    return False


def _changed(loop: ast.stmt, batch: ast.stmt) -> set[str]:
    """The objects that some other statement of the loop hands something to."""
    others = (one for one in ast.walk(loop) if isinstance(one, ast.Expr) and one is not batch)
    return set().union(*(_methods(one, True) for one in others))


def _methods(statement: ast.stmt, given: bool) -> set[str]:
    """The objects, by name, whose methods a statement calls; with arguments where ``given``."""
    return {
        one.func.value.id
        for one in code.calls_in(statement)
        if isinstance(one.func, ast.Attribute) and isinstance(one.func.value, ast.Name)
        and one.func.value.id not in MODULES and (not given or one.args or one.keywords)
    }  # fmt: skip
