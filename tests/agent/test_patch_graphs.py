"""Captures of graphs are known while they are under way. torch's classes are pretended."""

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
        if pool == "refused":
            raise RuntimeError(pool)
        return pool

    def capture_end(self) -> None:
        pass


@pytest.mark.parametrize("name", ["CUDAGraph", "XPUGraph", "Graph"])
def test_a_capture_is_known_from_its_begin_to_its_end(name: str) -> None:
    graph = type(name, (Graph,), dict(vars(Graph)))
    compiler.patch_graphs(SimpleNamespace(**{name: graph}))
    with pytest.raises(RuntimeError):
        graph().capture_begin("refused")
    assert state.captures == 0
    assert graph().capture_begin(pool=3) == 3
    assert (state.captures, state.graphs) == (1, True)
    graph().capture_end()
    assert state.captures == 0


@pytest.mark.parametrize(
    ("cuda", "can"), [("11.8", False), ("12.4", False), ("12.6", True), ("13.0", True), ("odd", False)]
)
def test_cupti_can_be_taken_out_from_cuda_12_6_on(cuda: str, can: bool) -> None:
    assert compiler.can_detach(cuda) is can
