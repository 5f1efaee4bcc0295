"""A program with CUDA graphs is not profiled where that is known to crash. torch's class is pretended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bottleneck_doctor.agent import compiler
from bottleneck_doctor.agent.state import state


@pytest.fixture(autouse=True)
def pulse(tmp_path: Path) -> Iterator[None]:
    before = dict(state.__dict__)
    state.begin(str(tmp_path))
    yield
    state.__dict__.clear()
    state.__dict__.update(before)


class Graph:
    """What torch.cuda.CUDAGraph offers here."""

    def capture_begin(self, pool: object = None) -> object:
        return pool


def test_without_graphs_the_profiler_may_come() -> None:
    assert compiler.may_profile("11.8")


@pytest.mark.parametrize(
    ("cuda", "may"), [("11.8", False), ("12.4", False), ("12.6", True), ("13.0", True), ("odd", False)]
)
def test_with_graphs_only_from_cuda_12_6_on(cuda: str, may: bool) -> None:
    compiler.patch_graphs(SimpleNamespace(CUDAGraph=Graph))
    assert Graph().capture_begin(pool=3) == 3
    assert compiler.may_profile(cuda) is may
