"""Gradients that are zeroed before they are used, in trainings of two optimizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch  # noqa: F401 - what the hook asks in the script's process

from bottleneck_doctor.agent import dropped_gradients
from tests.agent.watching import PRELUDE, profile_of, said, watched

pytestmark = pytest.mark.slow

# A pass through a network is 128 multiplications: two by the critic and one by the generator, then one each.
GAN = (
    PRELUDE
    + """
generator, critic = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
ours, theirs = (torch.optim.SGD(one.parameters(), lr=0.01) for one in (generator, critic))

def step(optimizer):
    optimizer.step()

def judged(real):
    zero(theirs)
    (critic(fake()).mean() - critic(real).mean()).backward()
    step(theirs)

def made():
    zero(ours)
    (-critic(generator(torch.randn(8, 4, requires_grad=True))).mean()).backward()
    step(ours)

for batch in DataLoader(Rows(512), batch_size=8):
    judged(batch)
    made()
say(end=1)
"""
)
FAKE = "def fake():\n    made = generator(torch.randn(8, 4, requires_grad=True))\n    return made"
ZERO = "def zero(optimizer):\n    optimizer.zero_grad({})"

OVERFLOWS = """
steps = iter(range(1000))
def step(optimizer):
    if not 2 <= next(steps) < 40:
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("fake", "zero", "share"),
    [
        pytest.param(FAKE, ZERO.format(""), 1 / 5, id="all of it goes through the generator"),
        pytest.param(FAKE + ".detach()", ZERO.format(""), 0.0, id="detached"),
        pytest.param(FAKE, ZERO.format("set_to_none=False"), 0.0, id="filled with zeros, which is not seen"),
        pytest.param(FAKE, "def zero(optimizer):\n    pass", 0.0, id="added up and used"),
        pytest.param(FAKE, ZERO.format("") + OVERFLOWS, 0.0, id="steps left out as by a gradient scaler"),
    ],
)
def test_what_a_loss_gives_the_other_network_is_told_to_be_dropped(
    fake: str, zero: str, share: float, tmp_path: Path
) -> None:
    told = watched(tmp_path, GAN.replace("def judged", f"{fake}\n{zero}\ndef judged", 1))
    said(told)
    (switches,) = profile_of(told).computing.switches
    assert switches.dropped_share == pytest.approx(share)


def test_one_optimizer_drops_nothing_and_nothing_is_said_of_it(tmp_path: Path) -> None:
    script = PRELUDE + "for batch in DataLoader(Rows(64), batch_size=4):\n    train_on(batch)\nsay(end=1)\n"
    told = watched(tmp_path, script)
    said(told)
    assert profile_of(told).computing.switches[0].dropped_share is None


def test_where_close_looks_are_too_short_graphs_are_not_walked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked: list[object] = []
    monkeypatch.setattr(dropped_gradients, "_walk", walked.append)
    monkeypatch.setattr(
        dropped_gradients, "_Passes", type("_Passes", (), dict(vars(dropped_gradients._Passes)))
    )
    monkeypatch.setattr(dropped_gradients.optimizers, "known", lambda: [None, None])
    monkeypatch.setattr(dropped_gradients, "dispatching", lambda: False)
    for _ in range(2 * dropped_gradients.WALKS_AT_MOST):
        dropped_gradients.before_backward([None])
        dropped_gradients.look_away()
    assert len(walked) == dropped_gradients.WALKS_AT_MOST
