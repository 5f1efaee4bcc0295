"""Arrays travel as tensors and arrive as arrays."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_the_loop_gets_what_it_got_before() -> None:
    said = tried().said
    assert said["types"] == ["ndarray", "list", "tuple", "ndarray"]
    assert said["reversed"] == [[2], [3]]  # a layout that tensors do not have goes as before
    assert tried().told("arrays") == {""}


def test_an_array_can_be_written_to() -> None:
    assert tried().said["sounds"] == [[5], [3]]
