"""The user's source is read without a word of our own about it."""

from __future__ import annotations

import warnings

from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.source import code


def test_what_python_says_of_the_users_escapes_is_not_said_again() -> None:
    source = FunctionSource(
        "/x/train.py", "find", 1, 'def find(text):\n    return re.findall("\\d+", text)\n'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert code.tree_of(source).body
