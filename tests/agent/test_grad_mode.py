"""Whether evaluation keeps what a backward pass needs is seen at its forward passes, wherever it is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.model.loops import Loop
from tests.agent.watching import PRELUDE, loops_over, plain, profile_of, watched

SCRIPT = (
    PRELUDE
    + """
for name in "Recorded Outside Inside Inference Scaled Compiled".split():
    globals()[name] = type(name, (Rows,), {})

class Scale(torch.nn.Module):
    def forward(self, batch):
        return batch / 2

scale = Scale()
training = DataLoader(Rows(40), batch_size=4)
held = {kind: DataLoader(kind(16), batch_size=4) for kind in (Recorded, Outside, Inside, Inference, Scaled)}
for epoch in range(2):
    for batch in training:
        train_on(batch)
    for batch in held[Recorded]:
        model(batch)
    with torch.no_grad():
        for batch in held[Outside]:
            model(batch)
    for batch in held[Inside]:
        with torch.no_grad():
            model(batch)
    for batch in held[Inference]:
        with torch.inference_mode():
            model(batch)
    for batch in held[Scaled]:
        batch = scale(batch)
        with torch.no_grad():
            model(batch)
assert not torch.nn.modules.module._global_forward_pre_hooks
"""
)

COMPILED = (
    PRELUDE
    + """
Compiled = type("Compiled", (Rows,), {})
quick = torch.compile(model, backend="eager")
held = DataLoader(Compiled(16), batch_size=4)
for epoch in range(3):
    for batch in DataLoader(Rows(40), batch_size=4):
        optimizer.zero_grad()
        quick(batch).square().mean().backward()
        optimizer.step()
    for batch in held:
        quick(batch)
print(len(torch._dynamo.utils.counters["graph_break"]), "graph breaks")
"""
)


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loop]:
    told = watched(tmp_path_factory.mktemp("modes"), SCRIPT)
    assert told.status == 0, told.stderr
    profile = profile_of(told)
    names = "Recorded Outside Inside Inference Scaled".split()
    return {name: loops_over(profile, name)[0] for name in names}


@pytest.mark.parametrize(
    ("name", "recorded"), [("Recorded", 2), ("Outside", 0), ("Inside", 0), ("Inference", 0), ("Scaled", 0)]
)
def test_every_evaluation_is_looked_at_once(loops: dict[str, Loop], name: str, recorded: int) -> None:
    assert loops[name].role == "evaluation"
    assert (loops[name].forwards, loops[name].recorded_forwards) == (2, recorded)


def test_a_compiled_model_never_meets_the_hook(tmp_path: Path) -> None:
    alone, seen = tmp_path / "alone", tmp_path / "seen"
    alone.mkdir()
    seen.mkdir()
    one, other = plain(alone, COMPILED), watched(seen, COMPILED)
    assert (one.status, one.stdout) == (other.status, other.stdout), other.stderr
    assert "hooks" not in other.stderr
    assert loops_over(profile_of(other), "Compiled")[0].forwards == 0
