"""A whole training whose copies and waits are listened to: what is read of it. The device is pretended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.rows import read_logs
from tests.agent.meta_device import IN_SCRIPT
from tests.agent.watching import PRELUDE, Told, plain, profile_of, said, watched

SCRIPT = (
    PRELUDE
    + IN_SCRIPT
    + """

def move(batch):
    return batch.to("meta", torch.float16)  # a copy

def read_back(value):
    try:
        return value.sum().item()  # a wait
    except RuntimeError:  # a meta tensor has no value
        return 0.0

def step(batch):
    moved = move(batch)
    losses.append(read_back(moved) + train_on(batch).item())

clock = sys.modules.get("_bdoc_agent.device_clock")
if clock is not None:
    clock.adopt(Device())
losses = []
for epoch in range(3):
    for batch in DataLoader(Rows(160), batch_size=4):
        step(batch)
for _ in range(60):  # a loop without a loader
    step(torch.ones(4, 4))
say(losses=losses, left=sorted(vars(torch.Tensor)), stream=torch.rand(1).item())
"""
)
WORDS = {"a copy": wire.DEVICE_COPY, "a wait": wire.DEVICE_WAIT}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Told]:
    return said(plain(tmp_path_factory.mktemp("plain"), SCRIPT)), watched(
        tmp_path_factory.mktemp("watched"), SCRIPT
    )


@pytest.mark.parametrize("what", ["losses", "left", "stream"])
def test_every_bit_is_the_same(what: str, both: Any) -> None:
    assert both[0][what] == said(both[1])[what]


@pytest.mark.parametrize("word", WORDS)
def test_each_step_that_was_listened_to_has_one(word: str, both: Any) -> None:
    (log,) = read_logs(both[1].folder)
    heard = [row for row in log.of(wire.DEVICE_STEP) if row.copies != wire.NOTHING]
    rows = log.of(WORDS[word])
    assert len(heard) > 5
    assert len(rows) == len(heard)
    (site,) = (fact for fact in log.facts if fact.get("site") == rows[0].site)
    source = (both[1].folder.parent / "train.py").read_text().splitlines()
    assert source[site["line"] - 1].endswith("# " + word)
    assert {row.site for row in rows} == {rows[0].site}


def test_steps_that_were_not_listened_to_say_so(both: Any) -> None:
    (log,) = read_logs(both[1].folder)
    assert wire.NOTHING in {row.copies for row in log.of(wire.DEVICE_STEP)}


def test_the_profile_has_the_copies_by_line(both: Any) -> None:
    device = profile_of(both[1]).device
    assert device is not None
    assert device.copies is not None
    (copy,) = device.copies
    assert (copy.count, copy.bytes) == (pytest.approx(1, rel=0.01), pytest.approx(32, rel=0.01))
    assert (copy.pinned, copy.blocking, Path(copy.file).name) == (False, True, "train.py")


def test_a_run_without_a_device_never_loads_the_hooks(tmp_path: Path) -> None:
    told = watched(
        tmp_path,
        PRELUDE
        + "for batch in DataLoader(Rows(160), batch_size=4): train_on(batch)\n"
        + "say(loaded=[name for name in sys.modules if name.startswith('_bdoc_agent.')])\n",
    )
    loaded = said(told)["loaded"]
    assert "_bdoc_agent.training" in loaded
    assert "_bdoc_agent.device_calls" not in loaded
