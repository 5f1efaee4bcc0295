"""A look tells what the step would have been without us."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.device_steps import _look
from bottleneck_doctor.assemble.loaders import Iteration, SampledArrival
from bottleneck_doctor.assemble.rows import TYPES


@pytest.mark.parametrize(("read", "left"), [(4000, 3800), (150, 0)])
def test_what_the_agent_takes_before_the_loop_waits_is_no_idleness(read: int, left: int) -> None:
    ours, waited = 200, 6000
    row = TYPES[wire.DEVICE_STEP]((1000, 9000, read, 9500, 0, 0, 0, 1, 0, wire.DEVICE_STEP))
    asked = TYPES[wire.NEXT]((1000 + ours, waited, 1, 0, waited, 0, 0, 1, 0, wire.NEXT))
    look = _look(row, Iteration(1, "loader", 0, 0), 0, SampledArrival(asked, asked))
    assert (look.wait, look.wall) == (left, 9500 - (read - left))
    assert look.host_wait == waited
