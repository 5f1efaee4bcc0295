"""What real trainings say of their settings and graphs: losses, gradients, modes, sharding."""

from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent import optimizers, torch_settings, wire
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.model.loops import Loop
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import PRELUDE, Told, both_ways, loops_over, plain, profile_of, said, watched

# The script itself asks for a profiler's window, as the supervisor would after some seconds.
WISH = f"""
import struct
if "BDOC_RUN" in os.environ:
    with open(os.environ["BDOC_RUN"] + "/control", "r+b") as control:
        control.seek({wire.PROFILE})
        control.write(struct.pack("<q", 1))
"""
SCRIPT = (
    PRELUDE
    + WISH
    + """
torch.use_deterministic_algorithms(True)
with torch.no_grad():
    model.weight.fill_(1e-40)
frozen = torch.nn.Parameter(torch.full((2000,), 1e-40))
wide = torch.nn.Conv2d(4, 8, 3)
table = torch.nn.Embedding(8192, 4)
trained = [*model.parameters(), *wide.parameters(), frozen, *table.parameters()]
optimizer = torch.optim.AdamW(trained, lr=0.0, fused=True)
compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
broken = torch.compile(lambda x: x * x.sum().item(), backend="eager")
losses = []
for place, batch in enumerate(DataLoader(Rows(64), batch_size=4)):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(batch).square().mean() + table(torch.arange(0, 160, 8)).sum()
    with torch.autograd.set_detect_anomaly(3 <= place < 9):
        loss.backward()
    optimizer.step()
    compiled(torch.ones(place + 2))
    broken(batch)
    torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 2)] * 3)  # in parts
    sum(number * number for number in range(20_000))
    losses.append(loss.item())
say(losses=losses, seed=torch.initial_seed(), draw=torch.rand(1).item())
"""
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("computing"), SCRIPT)


@pytest.fixture(scope="module")
def profile(told: Told) -> Profile:
    said(told)
    return profile_of(told)


def test_the_training_prints_what_it_would_without_us(told: Told, tmp_path: Path) -> None:
    alone = plain(tmp_path, SCRIPT)
    assert alone.status == 0, alone.stderr
    assert (told.stdout, told.status) == (alone.stdout, 0)


def test_switches_are_read_also_those_of_a_part_of_the_step(profile: Profile) -> None:
    (found,) = profile.computing.switches
    assert found.anomaly is False
    assert found.noticed == ["anomaly"]
    assert (found.autocast, found.deterministic) == (True, True)
    assert found.tracer == found.profiler == ""
    assert isinstance(found.amx, bool)


def test_an_optimizer_is_described_with_the_line_that_built_it(profile: Profile) -> None:
    (found,) = profile.computing.optimizers
    assert (found.name, found.fused, found.library, found.device) == ("AdamW", True, "torch", "cpu")
    assert (found.tensors, found.kernels, found.kernels_channels_last) == (6, 1, 0)
    assert found.elements == 4 + 1 + 8 * 4 * 9 + 8 + 2000 + 8192 * 4
    assert not found.closure
    assert (profile.run.command, Path(found.file).name) == (["train.py"], "train.py")
    assert found.line > 10


def test_of_a_table_the_rows_are_counted_that_a_batch_looked_up(profile: Profile) -> None:
    (found,) = profile.computing.gradient_rows
    assert (found.rows, found.elements, found.looked) == (8192, 8192 * 4, 1024)
    assert found.touched == 20


def test_a_profiled_step_shows_its_python(profile: Profile) -> None:
    (found,) = profile.computing.anatomies
    assert found.operators > 20
    assert found.long_s > found.beyond_s
    assert found.long_s + found.short_s + found.own_s <= 1.05 * found.wall_s
    assert "aten::_scaled_dot_product_attention_math" in {one.name for one in profile.operators}, (
        "it is cheap"
    )


def test_what_is_compiled_is_followed(profile: Profile) -> None:
    (found,) = profile.computing.compilations
    assert found.frames == sorted(found.frames)
    assert found.frames[-1] >= 3
    assert found.seconds[-1] > found.seconds[0] > 0
    assert set(found.recorded) == {0}


def test_why_graphs_broke_and_were_compiled_again_is_noted_with_the_line(profile: Profile) -> None:
    notes = profile.computing.compiler_notes
    for what, reason, code in (
        ("recompilation", "size mismatch", "x * 2"),
        ("graph break", "item", "x.sum().item()"),
    ):
        found = next(one for one in notes if one.what == what)
        assert reason in found.reason
        assert not found.reason[0].isdigit()
        assert found.location is not None
        assert code in Path(found.location.file).read_text().splitlines()[found.location.line - 1]
        assert found.count > (what == "recompilation")


torch: Any = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def work(loss: Any) -> float:
    """Multiplications behind a loss, forward."""
    return sum(map(torch_settings._multiplications, torch_settings.nodes(loss)))


SQUARE = torch.randn(4, 4, requires_grad=True)
IMAGES, SEQUENCES = torch.randn(2, 4, 15, 9), torch.randn(6, 5, 4, requires_grad=True)


@pytest.mark.parametrize(
    ("loss", "multiplications"),
    [
        (nn.Linear(8, 2)(torch.randn(5, 4, 8)), 20 * 8 * 2),
        (SEQUENCES @ SEQUENCES.transpose(1, 2), 6 * 5 * 4 * 5),
        ((SEQUENCES @ SEQUENCES.transpose(1, 2)).softmax(-1) @ SEQUENCES, 2 * 6 * 5 * 4 * 5),
        (nn.Conv2d(4, 8, 3, stride=2, padding=1)(IMAGES), 2 * 8 * 8 * 5 * 4 * 3 * 3),
        (nn.Conv2d(4, 6, (3, 1), groups=2)(IMAGES), 2 * 6 * 13 * 9 * 2 * 3),
        (SQUARE.exp(), 0),
        (torch.ones(2), 0),
    ],
)
def test_products_and_convolutions_are_counted(loss: Any, multiplications: int) -> None:
    assert work(loss.sum()) == multiplications


def test_work_whose_gradients_no_optimizer_uses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher of four times the student's width, with gradients switched on; its inputs get none."""
    student, teacher, head = nn.Linear(8, 16), nn.Linear(8, 64), nn.Linear(64, 1)
    x = torch.randn(5, 8)
    held: set[int] = set()
    monkeypatch.setattr(torch_settings.optimizers, "trained", lambda: held)

    def share(loss: Any, *trained: Any) -> float | None:
        held.clear()
        held.update(id(one) for module in trained for one in module.parameters())
        return torch_settings.unused_share(loss)

    both = student(x).sum() + teacher(x).sum()
    assert share(both, student) == pytest.approx(64 / 80)
    assert share(both, student, teacher) == 0.0
    assert share(both) is None, "before an optimizer has stepped"
    assert share(both, head) is None, "an optimizer of another loss"
    with torch.no_grad():
        targets = teacher(x).sum()
    assert share(student(x).sum() + targets, student) == 0.0
    assert share(head(teacher(student(x) @ torch.randn(16, 8))).sum(), student) == 0.0, "passed through"


def test_of_a_table_on_a_device_the_places_that_are_looked_up_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is read of it. A table that is also a layer has a gradient in each row."""
    table, tied, sparse = (nn.Embedding(8192, 4, device="meta", sparse=kind) for kind in (False, False, True))
    trained = {id(one.weight) for one in (table, tied, sparse)}
    monkeypatch.setattr(torch_settings.optimizers, "trained", lambda: trained)
    monkeypatch.setattr(state, "accelerator", object(), raising=False)
    monkeypatch.setattr(state, "backwards", 3, raising=False)
    monkeypatch.setattr(state, "optimizer_steps", 2, raising=False)
    words = torch.ones(20, 5, dtype=torch.long, device="meta")
    loss = (
        table(words).sum()
        + table(words[:2]).sum()
        + sparse(words).sum()
        + (tied(words) @ tied.weight.T).sum()
    )
    rows = {"elements": 8192 * 4, "rows": 8192, "looked": 8192, "touched": 2 * 22 * 5}
    assert torch_settings.lookups(loss) == [rows]


@pytest.mark.parametrize(
    ("asked", "on_cpu", "on_gpu"), [(None, False, True), (False, False, False), (True, True, True)]
)
def test_torch_updates_many_tensors_in_a_call_on_a_gpu_unless_told_not_to(
    asked: bool | None, on_cpu: bool, on_gpu: bool
) -> None:
    group = torch.optim.AdamW([nn.Parameter(torch.ones(2))], foreach=asked).param_groups[0]
    assert [optimizers._in_groups(group, device) for device in ("cpu", "cuda")] == [on_cpu, on_gpu]


SCRIPT_GRAD_MODE = (
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
    told = watched(tmp_path_factory.mktemp("modes"), SCRIPT_GRAD_MODE)
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
    alone, seen = both_ways(tmp_path, COMPILED)
    assert (seen.status, seen.stdout) == (alone.status, alone.stdout), seen.stderr
    assert "hooks" not in seen.stderr
    assert loops_over(profile_of(seen), "Compiled")[0].forwards == 0


ENGINE = """
class DeepSpeedEngine:
    def __init__(self, model, stage):
        self.module, self.stage = model, stage

    def zero_optimization_stage(self):
        return self.stage
"""
SCRIPT_ZERO = (
    PRELUDE
    + f"""
import os, sys
sys.path.insert(0, os.getcwd())
os.makedirs("deepspeed/runtime")
open("deepspeed/runtime/engine.py", "w").write('''{ENGINE}''')
from deepspeed.runtime.engine import DeepSpeedEngine

divided = torch.nn.Linear(30, 2)
divided.weight.ds_numel = 1000  # stage 3 keeps the whole size here; the tensor itself is empty
engine = DeepSpeedEngine(divided, 3)
"""
)


def test_its_stage_and_the_size_of_the_whole_model_are_told(tmp_path: Path) -> None:
    (model,) = profile_of(watched(tmp_path, SCRIPT_ZERO)).ranks.parallel
    assert (model.kind, model.arguments) == ("zero", {"stage": "3"})
    assert model.gradient_bytes == 4 * (1000 + 2)
    assert Path(model.file).name == "train.py"
