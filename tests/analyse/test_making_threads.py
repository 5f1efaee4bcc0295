"""What torch computes in a data set uses its threads; what others compute beside idle threads does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.threads import making_threads
from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.diagnosis import Inputs
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Loader
from tests.analyse.runs import run_of

LOADER = Loader("1:1", "dataloader", 1, "Pictures")
FETCH = "fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)"
TORCH = "interpolate (/x/site-packages/torch/nn/functional.py:9)"
INPUTS = Inputs(cpu=0.010, other_cpu=0.008)


@pytest.mark.parametrize(
    ("text", "below", "threads"),
    [
        ("def get(self, i):\n    return grow(self.rows[i])\n", [TORCH], 1.8),
        ("def get(self, i):\n    return torch.roll(self.rows[i], 1)\n", [], 1.8),  # compiled: no frame below
        ("def get(self, i):\n    return np.roll(self.rows[i], 1)\n", [], 1.0),
    ],
)
def test_by_the_hottest_line(text: str, below: list[str], threads: float) -> None:
    stack = Stack(1, "trainer", "MainThread", [FETCH, "get (/data/train.py:2)", *below], 90, 90)
    profile = replace(run_of(), stacks=[stack], sources=[FunctionSource("/data/train.py", "get", 1, text)])
    assert making_threads(profile, None, LOADER, [], INPUTS) == pytest.approx(threads)
