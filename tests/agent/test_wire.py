"""The treaty between the agent and the supervisor."""

from __future__ import annotations

import ast
import inspect
from collections import Counter

from bottleneck_doctor.agent import wire


def test_no_two_kinds_of_rows_have_the_same_number() -> None:
    """A row of one kind would be read as the other."""
    source = "#" + inspect.getsource(wire).partition("# Kinds of rows")[2]
    numbers = Counter(
        node.value.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value > 0
    )
    assert len(numbers) > 30
    assert {number: count for number, count in numbers.items() if count > 1} == {}
