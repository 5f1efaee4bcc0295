"""Shares of a step, of making a batch, or of the operators' time, from which findings speak."""

from __future__ import annotations

from ...analyse.predict import WORTH

TRIFLE = 1 - 1 / WORTH  # less of it cannot bring what a remedy has to
VISIBLE = 0.1  # [TensorBoard plugin of the PyTorch profiler: communication, kernels that wait for copies]
LARGE = 0.3  # what a finding is about takes at least so much (chosen)
MOST = 0.5  # more than all the rest
NEARLY_ALL = 0.9  # the rest is what clocks, counts and samples are off by (chosen)
