"""Tells whether a loop changes what it gets its batches from: a replay buffer cannot be moved to workers."""

from __future__ import annotations

import ast
import re

from ..model.loops import Outside
from ..model.profile import Profile
from . import code
from .loop_parts import parse_frame
from .outside import gap_stacks

HANDS_OVER = re.compile(r"update|push|add|append|store|insert|put|extend|remember")  # in a method's name


def is_fed_back(profile: Profile, outside: Outside | None) -> bool:
    """Whether the loop around the line that gets a batch, as in ``log.sample(n)``, also hands something to
    the same object, as in ``log.update(index, error)``."""
    lines = {one.frames[0] for one in gap_stacks(profile, outside) if one.frames} if outside else set()
    for place in map(parse_frame, lines):
        source = code.source_at(profile.sources, place) if place is not None else None
        tree = code.tree_of(source) if source is not None else None
        around = code.statements_around(tree, place.line) if tree is not None and place is not None else []
        loops = [one for one in around if isinstance(one, ast.For | ast.While)]
        if not loops or loops[-1] is around[-1]:  # what a loop's head goes through is begun before its steps
            continue
        others = (one for one in ast.walk(loops[-1]) if isinstance(one, ast.Expr) and one is not around[-1])
        if _receivers(around[-1]) & {name for one in others for name in _receivers(one, HANDS_OVER)}:
            return True
    return False


def _receivers(statement: ast.stmt, method: re.Pattern[str] | None = None) -> set[str]:
    """The objects, as they are written, whose methods a statement calls; of methods so named, where given.
    ``self`` is none of them: a trainer gets batches and does everything else, too."""
    functions = [one.func for one in code.calls_in(statement)]
    return {
        ast.unparse(one.value)
        for one in functions
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name | ast.Attribute)
        and (method is None or method.search(one.attr))
    } - {"self"}  # fmt: skip
