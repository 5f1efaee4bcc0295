"""What traces, scripts or transforms a program gets the same from it while hooks on tensors are on."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from bottleneck_doctor.agent.tensor_hooks import patches
from tests.agent.meta_device import IN_SCRIPT, in_use, look
from tests.agent.watching import PRELUDE, Told, plain, said, watched
from tests.simulated.torch_api import Driver

pytestmark = [pytest.mark.slow, pytest.mark.long]

ONE = torch.arange(4.0)


def moves(one: torch.Tensor) -> torch.Tensor:
    return one.to(torch.float64).cpu() + torch.zeros(4, dtype=torch.float64).copy_(one)


def reads(one: torch.Tensor) -> torch.Tensor:
    return one * float(one.sum()) + int(one.max().item()) if bool(one.any()) else one


class Reads(torch.nn.Module):
    def forward(self, one: torch.Tensor) -> torch.Tensor:
        return moves(one)


class Names(TorchDispatchMode):
    """What reaches torch's dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def dispatched() -> list[str]:
    with Names() as mode:
        moves(ONE).sum().item()
        str(ONE)
        ONE.to("meta")
    return mode.names


def faked() -> str:
    with FakeTensorMode() as mode:
        return str(moves(mode.from_tensor(ONE)))


def scripted() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = str(torch.jit.trace(moves, (ONE,)).graph)
        return str(torch.jit.script(reads).graph) + re.sub("#.*", "", traced)  # less the lines of Python


def exported() -> str:
    return str(torch.export.export(Reads(), (ONE,)).graph)


TRACERS: dict[str, Callable[[], Any]] = {
    "symbolic trace": lambda: torch.fx.symbolic_trace(moves).code,
    "proxy tensors": lambda: make_fx(moves)(ONE).code,
    "proxy tensors, symbolic": lambda: make_fx(moves, tracing_mode="symbolic")(ONE).code,
    "export": exported,
    "torchscript": scripted,
    "fake tensors": faked,
    "dispatch modes": dispatched,
    "vmap": lambda: torch.vmap(lambda one: one.to(torch.float64).cpu() * 2)(ONE).tolist(),
    "grad": lambda: torch.func.grad(lambda one: moves(one).sum())(ONE).tolist(),
    "pickling": lambda: pickle.loads(pickle.dumps(torch.Tensor.item))(ONE[1]),
    "copying": lambda: copy.deepcopy([ONE, torch.nn.Parameter(ONE)])[1].tolist(),
    "names": lambda: [torch.overrides.resolve_name(torch.Tensor.to), torch.Tensor.to.__name__],
    "printing": lambda: f"{ONE} {ONE[1]:.2f} {ONE!r} {ONE > 1}",
    "tables of overrides": lambda: len(torch.overrides.get_overridable_functions.__wrapped__()[torch.Tensor]),
}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Driver]:
    with in_use(tmp_path) as found:
        yield found


@pytest.mark.parametrize("tracer", TRACERS)
def test_the_outcome_is_the_same(tracer: str, device: Driver) -> None:
    alone = TRACERS[tracer]()
    with look():
        assert patches.sampled == 1
        seen = TRACERS[tracer]()
    assert seen == alone
    assert TRACERS[tracer]() == alone


COMPILED = (
    PRELUDE
    + IN_SCRIPT
    + """
import torch._dynamo.utils
torch._dynamo.config.recompile_limit = 64

@torch.compile(backend="aot_eager")
def whole(batch, target):
    moved = batch.to(torch.float64).cpu()
    target.copy_(moved)
    if moved.sum() > 1e9:
        moved = moved + 1
    rows = moved[moved > 0]
    number = moved.max().item() + float(moved.min()) + int(moved[0, 0]) + len(moved.nonzero())
    named = torch.Tensor.item(moved.mean()) + sum(map(torch.Tensor.item, moved[0]))
    print(f"{moved[0, 0]} {moved[0]}", file=sys.stderr)
    return (moved * number).sum() + rows.sum() + named + [1, 2, 3][int(batch[0, 0]) % 3]

clock = torch_api.adopt(torch_api.Driver())
if clock is not None:
    sys.modules["_bdoc_agent.tensor_hooks"].patches.next = 0
class Window:  # pretended: hooks that are for windows only are on, too
    trace = True
    def over(self, loader): return False
    def name(self, kind, frame): return None

losses, sizes = [], (4, 4, 4, 4, 6, 6, 2, 2, 2)
for epoch, size in enumerate(sizes):  # new sizes are compiled for in the midst of looks
    if clock is not None and epoch in (1, 4):
        sys.modules["_bdoc_agent.state"].state.window = Window() if epoch == 1 else None
    for batch in DataLoader(Rows(4 * size), batch_size=size):
        losses.append(whole(batch, torch.zeros(size, 4, dtype=torch.float64)).item())
        torch.ones(2).to("meta")
        train_on(batch)
counters = torch._dynamo.utils.counters
heard = 0 if clock is None else sys.modules["_bdoc_agent.tensor_hooks"].patches.sampled
say(
    losses=losses, breaks=sum(counters["graph_break"].values()), graphs=counters["stats"]["unique_graphs"],
    frames=counters["frames"]["total"], compilations=len(torch._dynamo.utils.get_compilation_metrics()),
    heard=heard, left=sorted(vars(torch.Tensor)),
)
"""
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Told]:
    alone = plain(tmp_path_factory.mktemp("plain"), COMPILED)
    if alone.status != 0 and "dynamo" in alone.stderr:
        pytest.skip("torch.compile does not work here")
    seen = watched(tmp_path_factory.mktemp("watched"), COMPILED)
    return said(alone), said(seen), seen


@pytest.mark.parametrize("what", ["losses", "breaks", "graphs", "frames", "compilations", "left"])
def test_a_compiled_step_is_compiled_the_same(what: str, both: Any) -> None:
    assert both[0][what]
    assert both[0][what] == both[1][what]


def test_and_was_listened_to(both: Any) -> None:
    assert both[1]["heard"] > 10
