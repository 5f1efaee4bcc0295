"""What a backward pass computes again is told from what it derives. Traces written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from bottleneck_doctor.assemble.trace import read_window
from tests.assemble.traces import BACKWARD, Pen

NUMBERED = {"Sequence number": 5, "Fwd thread id": 0, "Input Dims": [[8, 8]]}


@pytest.mark.parametrize(
    ("name", "given", "seconds"),
    [
        ("aten::relu", NUMBERED, 200e-6),
        ("aten::relu", {"Input Dims": [[8, 8]]}, 0.0),  # not recorded: no repetition
        ("aten::gelu", NUMBERED, 0.0),  # not in the forward pass: its derivative is recorded
        ("CompiledFunction", NUMBERED, None),
    ],
)
def test_forward_work_that_a_backward_pass_repeats(
    name: str, given: dict[str, Any], seconds: float | None
) -> None:
    pen = Pen()
    for place in range(4):
        at = place * 1000
        pen.step(at)
        pen.on_host("aten::relu", at + 10, 20, **NUMBERED)
        pen.kernel(at + 15, at + 20, 100)
        pen.on_host("autograd::engine::evaluate_function: ReluBackward0", at + 100, 100, BACKWARD)
        pen.on_host(name, at + 110, 20, BACKWARD, **given)
        pen.kernel(at + 115, at + 200, 200, thread=BACKWARD)
        pen.kernel(at + 150, at + 400, 300, thread=BACKWARD)
    pen.step(4000)
    table = read_window(pen.text())
    assert table is not None
    assert table.recompute_s == (pytest.approx(seconds) if seconds is not None else None)
