"""Real trainings say what they have set, how they step, what is compiled, and what one step is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.agent import optimizers, wire
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import PRELUDE, Told, plain, profile_of, said, watched

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
losses = []
for place, batch in enumerate(DataLoader(Rows(64), batch_size=4)):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(batch).square().mean() + table(torch.arange(0, 160, 8)).sum()
    with torch.autograd.set_detect_anomaly(place == 3):
        loss.backward()
    optimizer.step()
    compiled(torch.ones(place + 2))
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
    assert found.autocast is True
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


def test_no_table_is_looked_at_where_a_mode_would_count_that() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    table = torch.nn.Embedding(5000, 2)
    table(torch.tensor([3])).sum().backward()
    optimizer = torch.optim.SGD(table.parameters())
    assert len(optimizers._tables(optimizer)) == 1
    with FlopCounterMode(display=False):
        assert optimizers._tables(optimizer) == []


def test_a_profiled_step_shows_its_python(profile: Profile) -> None:
    (found,) = profile.computing.anatomies
    assert found.operators > 20
    assert found.long_s > found.beyond_s
    assert found.long_s + found.short_s + found.own_s <= 1.05 * found.wall_s


def test_what_is_compiled_is_followed(profile: Profile) -> None:
    (found,) = profile.computing.compilations
    assert found.frames == sorted(found.frames)
    assert found.frames[-1] >= 3
    assert found.seconds[-1] > found.seconds[0] > 0
