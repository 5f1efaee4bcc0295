"""Treatments that change how a model computes: compiled, or in 16 bits where that is safe."""

from pathlib import Path
from typing import Any

import pytest

from tests.agent.trying import treated
from tests.agent.watching import PRELUDE

pytestmark = pytest.mark.slow

# No code is generated: whether the compiler was asked is the question, and it breaks for the second model.
COMPILED = """
import copy, functools
asked = []
def backend(graph, inputs):
    asked.append(len(inputs))
    if len(asked) == 2:
        raise RuntimeError("no compiler for this")
    return graph.forward
torch.compile = functools.partial(torch.compile, backend=backend)

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
other = torch.nn.Sequential(torch.nn.Linear(4, 1))
twin = copy.deepcopy(model)
def train(one, more=None):
    losses = []
    optimizer = torch.optim.SGD(one.parameters(), lr=1e-4)
    for length in range(2, 9):
        batch = torch.ones(length, 4)
        loss = one(batch).square().mean()
        if more is not None:
            loss = loss + 0 * more(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
say(compiled=train(model, other), plain=train(twin), asked=len(asked))
"""
CAST = """
heard = {}
def note(place):
    heard.setdefault(place, []).append(torch.is_autocast_enabled("cpu"))

class Noted(Rows):
    def __getitem__(self, index):
        note("data")
        return torch.ones(4)

class Same(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        note("backward")
        return gradient

optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
optimizer.register_step_pre_hook(lambda *_: note("optimizer"))
types, outputs = [], []
for place, batch in enumerate(DataLoader(Noted(24), batch_size=4)):
    note("loop")
    out = model(batch)
    types.append(str(out.dtype).partition(".")[2])
    outputs.append(out.float().mean().item())
    Same.apply(out.square().mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model.weight.fill_(float(place)), model.bias.zero_()
say(types=types, outputs=outputs, **heard)
"""


def test_a_model_is_compiled_once_for_all_shapes_and_one_that_cannot_be_goes_on(tmp_path: Path) -> None:
    seen, words = treated(tmp_path, PRELUDE + COMPILED, [("compiled", {}), ("dynamic", {})])
    assert words["dynamic"] == [""]
    assert seen["asked"] == 2  # each model once
    assert seen["compiled"] == pytest.approx(seen["plain"])
    applied, failed = sorted(words["compiled"])
    assert applied == ""
    assert "no compiler for this" in failed


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    orders = [("autocast", {"device": "cpu", "dtype": "bfloat16"})]
    seen, words = treated(tmp_path_factory.mktemp("cast"), PRELUDE + CAST, orders)
    assert words == {"autocast": [""]}
    return seen


def test_autocast_holds_for_forward_pass_and_loss_alone(cast: dict[str, Any]) -> None:
    assert cast["types"] == ["float32"] + ["bfloat16"] * 5
    assert cast["loop"] == [False] + [True] * 5
    assert not any(cast["data"] + cast["backward"] + cast["optimizer"])


def test_autocast_forgets_weights_that_have_changed(cast: dict[str, Any]) -> None:
    assert cast["outputs"][1:] == [0.0, 4.0, 8.0, 12.0, 16.0]
