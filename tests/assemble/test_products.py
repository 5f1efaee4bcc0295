"""What the shapes of a trace's convolutions say of a training whose inputs keep theirs, or do not."""

from __future__ import annotations

from bottleneck_doctor.assemble.kernels import passing_shapes
from bottleneck_doctor.model.device import Convolution

STEPS = 5


def convolution(side: int, calls: float, backward: bool = False) -> Convolution:
    return Convolution(
        [8, 3, side, side], [16, 3, 3, 3], [1, 1], [1, 1], [1, 1], 1, "float32", calls, 1e-4, backward
    )


def test_shapes_of_every_step_do_not_pass() -> None:
    assert passing_shapes([convolution(64, 1.0), convolution(32, 2.0)], STEPS) == 0


def test_a_shape_in_two_precisions_is_one() -> None:
    assert passing_shapes([convolution(64, 0.6), convolution(64, 0.4)], STEPS) == 0


def test_shapes_that_some_steps_lack_pass() -> None:
    assert passing_shapes([convolution(side, 1 / STEPS) for side in range(40, 45)], STEPS) == 100


def test_the_backward_pass_has_the_same_shapes() -> None:
    assert passing_shapes([convolution(64, 1.0), convolution(64, 0.2, backward=True)], STEPS) == 0
