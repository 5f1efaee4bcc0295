"""Tensors are shared between processes in the way that was ordered."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_torch_shares_by_name() -> None:
    assert tried().said["sharing"] == "file_system"
    assert tried().told("sharing") == {""}
