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

clock = torch_api.adopt(torch_api.Driver())
if clock is not None:
    clock.BUDGET_NS = 200_000  # busy machines take that long for a sampled step
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
    assert len(rows) == len(heard) > 0
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


KEPT = (
    PRELUDE
    + IN_SCRIPT
    + """
import atexit, functools, threading
one, clock = torch.ones(4), torch_api.adopt(torch_api.Driver())
hooks = sys.modules.get("_bdoc_agent.tensor_hooks")
if hooks is not None:
    clock.BUDGET_NS, hooks.patches.next = 10**9, 0
for batch in DataLoader(Rows(80), batch_size=4):
    train_on(batch)
    if hooks is None or type(torch.Tensor.to) is hooks.HookedMethod:  # while methods are replaced
        to, item, synchronize = torch.Tensor.to, torch.Tensor.item, torch._C._accelerator_synchronizeDevice
        bound, part = one.to, functools.partial(torch.Tensor.to, one)
        class Copied(torch.Tensor):
            to, cpu = torch.Tensor.to, torch.Tensor.cpu
        break

def used(when):
    moved = (to(one, "meta"), bound("meta"), part(torch.float16), bound(device="meta", dtype=torch.float64),
             one.as_subclass(Copied).to("meta").to(torch.float16), bound(0.5 * one), to(one, one.to("meta")))
    print(when, [(str(other.device), str(other.dtype), type(other).__name__) for other in moved])
    print(item(one.sum()), one.as_subclass(Copied).cpu().sum().item())
    for wrong in (lambda: to(3, "meta"), lambda: bound(), lambda: item(one), lambda: synchronize("nowhere")):
        try: wrong()
        except Exception as refusal: print(type(refusal).__name__, str(refusal).splitlines()[0])
    sys.stdout.flush()

used("at once")
thread = threading.Thread(target=bound, args=("meta",))
thread.start(); thread.join()
child = os.fork()
if not child:
    used("in a child")
    os._exit(0)
os.waitpid(child, 0)
if clock is not None:
    clock.give_up("for the test")
used("given up")
atexit.register(bound, "meta")  # called from C, with no frame of Python's above
if clock is not None:
    import _bdoc_agent.leaving
    _bdoc_agent.leaving.take_off()
used("left")
"""
)


def test_a_method_that_was_kept_while_it_was_replaced_works_for_ever(tmp_path: Path) -> None:
    for folder in ("alone", "under_bdoc"):
        (tmp_path / folder).mkdir()
    alone, under_bdoc = plain(tmp_path / "alone", KEPT), watched(tmp_path / "under_bdoc", KEPT)
    assert (under_bdoc.status, under_bdoc.stdout, under_bdoc.stderr) == (0, alone.stdout, "")
    assert (alone.status, alone.stderr) == (0, "")
