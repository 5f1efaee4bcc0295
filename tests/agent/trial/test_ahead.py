"""A background thread makes the next batches, in their order, and is gone when nobody wants them."""

from __future__ import annotations

import pytest

from tests.agent.trial.trying import tried

pytestmark = pytest.mark.slow


def test_batches_come_in_their_order_from_another_thread() -> None:
    assert tried().said["queued"] == [[[index, 1] for index in range(6)]] * 2


def test_an_exception_comes_in_its_turn() -> None:
    assert tried().said["raised"] == [0, 1, 2, 3, 4, 5, "KeyError('seven')"]


def test_no_thread_is_left_also_where_a_loop_was_left_early() -> None:
    assert tried().said["threads"] == 1
