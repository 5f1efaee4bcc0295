"""Whole trainings with hooks on tensors: tracers, devices that fail, copies and waits."""

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

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.tensor_hooks import patches
from bottleneck_doctor.assemble.rows import read_logs
from tests.agent.meta_device import IN_SCRIPT, in_use, look
from tests.agent.watching import PRELUDE, Told, both_ways, plain, profile_of, said, watched
from tests.simulated.torch_api import Driver

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


@pytest.mark.parametrize("word", WORDS)
def test_each_step_that_was_listened_to_has_one(word: str, both: Any) -> None:
    (log,) = read_logs(both[1].folder)
    assert said(both[1]) == both[0], "losses, random numbers and what torch.Tensor has"
    steps = log.of(wire.DEVICE_STEP)
    heard = [row for row in steps if row.copies != wire.NOTHING]
    assert len(heard) < len(steps)
    rows = log.of(WORDS[word])
    assert len(rows) == len(heard) > 0
    (site,) = (fact for fact in log.facts if fact.get("site") == rows[0].site)
    source = (both[1].folder.parent / "train.py").read_text().splitlines()
    assert source[site["line"] - 1].endswith("# " + word)
    assert {row.site for row in rows} == {rows[0].site}
    device = profile_of(both[1]).device
    assert device is not None
    (copied,) = device.copies or ()
    assert (copied.count, copied.bytes) == (pytest.approx(1, rel=0.01), pytest.approx(32, rel=0.01))
    assert (copied.pinned, copied.blocking, Path(copied.file).name) == (False, True, "train.py")


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
import atexit, functools, threading, warnings; warnings.simplefilter('ignore')  # a fork beside a thread
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
    alone, under_bdoc = both_ways(tmp_path, KEPT)
    assert (under_bdoc.status, under_bdoc.stdout, under_bdoc.stderr) == (0, alone.stdout, "")
    assert (alone.status, alone.stderr) == (0, "")


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
    "proxy tensors, symbolic": lambda: make_fx(moves, tracing_mode="symbolic")(ONE).code,
    "export": exported,
    "torchscript": scripted,
    "fake tensors": faked,
    "dispatch modes": dispatched,
    "vmap": lambda: torch.vmap(lambda one: one.to(torch.float64).cpu() * 2)(ONE).tolist(),
    "pickling": lambda: pickle.loads(pickle.dumps(torch.Tensor.item))(ONE[1]),
    "copying": lambda: copy.deepcopy([ONE, torch.nn.Parameter(ONE)])[1].tolist(),
    "tables of overrides": lambda: len(torch.overrides.get_overridable_functions.__wrapped__()[torch.Tensor]),
}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Driver]:
    with in_use(tmp_path) as found:
        yield found


@pytest.mark.slow
@pytest.mark.long
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
    number = moved.max().item() + len(moved.nonzero()) + torch.Tensor.item(moved.mean())
    return (moved * number).sum() + [1, 2, 3][int(batch[0, 0]) % 3]

clock = torch_api.adopt(torch_api.Driver())
if clock is not None:
    sys.modules["_bdoc_agent.tensor_hooks"].patches.next = 0
class Window:  # pretended: hooks that are for windows only are on, too
    trace = True
    def over(self, loader): return False
    def name(self, kind, frame): return None

losses, sizes = [], (4, 4, 2)
for epoch, size in enumerate(sizes):  # new sizes are compiled for in the midst of looks
    if clock is not None and epoch in (1, 2):
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


@pytest.mark.slow
@pytest.mark.long
def test_a_compiled_step_is_compiled_the_same_and_listened_to(tmp_path: Path) -> None:
    alone, under_bdoc = both_ways(tmp_path, COMPILED)
    if alone.status != 0 and "dynamo" in alone.stderr:
        pytest.skip("torch.compile does not work here")
    seen = said(under_bdoc)
    assert seen.pop("heard") > 5
    assert seen == {name: value for name, value in said(alone).items() if name != "heard"}


SCRIPT_DEVICE_FAILURES = (
    PRELUDE
    + IN_SCRIPT
    + """
import atexit
driver = torch_api.Driver()  # an event that is freed when it must not be ends the process by SIGABRT

def at_exit():
    print("at exit", driver.freed, driver.created > 0 or clock is None, flush=True)
    driver.error = "driver shutting down"

atexit.register(at_exit)
driver.passed = lambda mark: False  # steps are pending when it happens
clock = torch_api.adopt(driver)
for place, batch in enumerate(DataLoader(Rows(120), batch_size=4)):
    loss = train_on(batch)
    if place == 20:
        HAPPENS
    if place == 22:
        LATER
print("trained", round(loss.item(), 6))
"""
)
# What happens, and what the script's own next call of the device does about it.
FAILURES = {
    "nothing": ("", ""),
    "an error that the device keeps": (
        "driver.error = 'assert'",
        "raise RuntimeError('CUDA error: device-side assert triggered')",
    ),
    "marks are refused": ("driver.mark = lambda: 1 / 0", ""),
    "the loop forks": ("child = os.fork(); child and print(os.waitpid(child, 0)[1])", ""),
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", FAILURES)
def test_the_script_ends_as_it_does_by_itself(name: str, tmp_path: Path) -> None:
    happens, later = FAILURES[name]
    text = SCRIPT_DEVICE_FAILURES.replace("HAPPENS", happens or "pass").replace("LATER", later or "pass")
    alone, under_bdoc = both_ways(tmp_path, text, fresh=name == "an error that the device keeps")
    assert (under_bdoc.status, under_bdoc.stdout) == (alone.status, alone.stdout)
    assert under_bdoc.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]
    assert "at exit 0 True" in under_bdoc.stdout, "none of the events was freed, and there were some"
