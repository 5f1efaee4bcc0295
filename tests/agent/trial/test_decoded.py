"""A picture is decoded once, and has the same pixels when it comes from memory."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_pixels_are_those_of_the_file() -> None:
    pytest.importorskip("PIL")
    assert tried().said["pictures"] == [True] * 6
    assert "" in tried().told("decoded")
