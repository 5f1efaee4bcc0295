"""Hooks on tensors and functions of torch: what must be torch's own is. The device is pretended."""

import json
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch.overrides import TorchFunctionMode

from bottleneck_doctor.agent import hooks, tensor_hooks, wire
from bottleneck_doctor.agent.hooks import HOOKS
from bottleneck_doctor.agent.tensor_hooks import patches
from tests.agent.meta_device import in_use, look, rows_of
from tests.agent.watching import PRELUDE, Told, both_ways, said
from tests.simulated.torch_api import Driver

COPYREG = "__slotnames__"  # it keeps that on every class of which something was ever copied or pickled
OWN = dict(vars(torch.Tensor))


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Driver]:
    with in_use(tmp_path) as found:
        yield found


def as_torch_made_it() -> bool:
    names = {*OWN, *vars(torch.Tensor)} - {COPYREG}
    return all(vars(torch.Tensor).get(name) is OWN.get(name) for name in names)


def test_they_go_on_ever_more_rarely_and_not_for_ever(device: Driver) -> None:
    patches.next = tensor_hooks.FIRST_LOOK
    for _ in range(tensor_hooks.FIRST_LOOK - 1):
        with look():
            assert not patches.on, "the first are left alone"
    with look():
        assert vars(torch.Tensor)["__repr__"] is not OWN["__repr__"]
    assert as_torch_made_it()
    heard: list[int] = []
    for number in range(3000):
        before = patches.sampled
        tensor_hooks.listen()
        tensor_hooks.rest()
        heard += [number] if patches.sampled > before else []
    assert heard[:4] == [0, 1, 2, 3]
    assert 100 < len(heard) < 300
    patches.left, patches.next = 0, 0
    assert not tensor_hooks.listen()
    assert as_torch_made_it()


def test_what_is_imported_sees_torchs_own(
    device: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sees_item.py").write_text("import torch\nitem = torch.Tensor.item\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [hooks.Finder(), *sys.meta_path])
    with look():
        torch.ones(2).to("meta")
        import sees_item  # type: ignore[import-not-found]  # the user's program imports in mid-step

        torch.ones(2).to("meta")
    assert sees_item.item is torch._C.TensorBase.item
    assert [row.copies for row in rows_of(tmp_path, wire.DEVICE_STEP)] == [wire.NOTHING]
    assert rows_of(tmp_path, wire.DEVICE_COPY) == []


def test_a_program_that_compiles_in_every_look_is_left_alone(device: Driver, tmp_path: Path) -> None:
    for _ in range(2 * tensor_hooks.COMPILED_AT_MOST):
        with look():
            tensor_hooks._compiles()
            assert as_torch_made_it()
    assert patches.sampled == tensor_hooks.COMPILED_AT_MOST
    assert {row.copies for row in rows_of(tmp_path, wire.DEVICE_STEP)} == {wire.NOTHING}


class Subclass(torch.Tensor):
    """A subclass that knows torch's own functions only."""

    heard: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.heard.append(func)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def test_a_subclass_is_told_of_torchs_own_functions(device: Driver, tmp_path: Path) -> None:
    Subclass.heard = []
    one = torch.ones(()).as_subclass(Subclass)
    with look():
        one.item()
        bool(one)
        torch.zeros(()).copy_(one)
        one.to("cpu")
        torch.ones(1).to(one)
        assert patches.on
        torch.ones(1).to("meta")
    base = torch._C.TensorBase
    assert Subclass.heard == [base.item, base.__bool__, base.copy_, base.to, base.to]
    assert len(rows_of(tmp_path, wire.DEVICE_COPY)) == 1


def test_a_mode_is_told_of_torchs_own_functions(device: Driver) -> None:
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(func)
            return func(*args, **(kwargs or {}))

    told: list[Any] = []
    with look(), torch.device("cpu"):  # whose mode hands all on
        torch.ones(2).to("meta")
        torch.nn.LazyLinear(3).to("cpu").double()
        assert patches.on
    with look(), Mode():
        torch.ones(()).item()
    assert told[-1] is torch._C.TensorBase.item
    assert len(told) == 2


def test_what_somebody_else_has_put_there_stays(device: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(self: Any) -> str:
        return "theirs"

    monkeypatch.setattr(torch.Tensor, "item", theirs, raising=False)
    with look():
        assert torch.ones(()).item() == "theirs"  # type: ignore[comparison-overlap]
    assert vars(torch.Tensor)["item"] is theirs


def test_a_forked_child_has_torchs_own(device: Driver) -> None:
    context = multiprocessing.get_context("fork")
    found = context.SimpleQueue()
    tensor_hooks.install(compiled=False)
    with look():
        child = context.Process(target=lambda: found.put(as_torch_made_it()))
        child.start()
        assert found.get()
        child.join()
        assert patches.on
    hooks.before_search.remove(tensor_hooks.hush)


def test_where_torch_warns_of_waits_its_warnings_name_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.cuda.set_sync_debug_mode("warn") names the innermost frame, which a hook would be."""
    monkeypatch.setattr(torch._C, "_cuda_get_sync_debug_mode", lambda: 1, raising=False)
    with in_use(tmp_path), look() as current:
        assert (patches.on, current.copies) == (False, wire.NOTHING)


# What stands for a function of the script's library, found under bdoc and looked at plainly, too.
REPLACED = (
    PRELUDE
    + """
import importlib, inspect
names = []
for module in %r:
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        continue
    for name, value in sorted(vars(loaded).items()):
        if inspect.isfunction(value) and hasattr(value, "_bdoc_original"):
            names.append((module, name))
        elif inspect.isclass(value) and value.__module__ == module:
            methods = [key for key, one in vars(value).items() if hasattr(one, "_bdoc_original")]
            names += [(module, name + "." + key) for key in methods]
say(names=names)
"""
)
FACTS = (
    PRELUDE
    + """
import functools, importlib, inspect, pickle, warnings
warnings.simplefilter("ignore")
import torch.jit._builtins, torch.overrides

def asked(question):
    try:
        return str(question())
    except Exception as problem:
        return type(problem).__name__

def facts(module, name):
    thing = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    return [
        asked(lambda: inspect.signature(thing)), thing.__module__, thing.__qualname__, type(thing).__name__,
        asked(lambda: pickle.loads(pickle.dumps(thing)) is thing),
        asked(lambda: torch.jit._builtins._find_builtin(thing)),
        asked(lambda: thing in torch.overrides.get_ignored_functions()),
    ]

def tell(state):
    for module, name in json.loads(os.environ["NAMES"]):
        say(state=state, name=module + ":" + name, facts=facts(module, name))

tell("before")
for number, batch in enumerate(DataLoader(Rows(3000), batch_size=None)):
    train_on(batch)
    if number in (1, 1500, 1501, 1502, 1503):
        tell(number)
    if number == 2000:
        break
tell("after")
if "_bdoc_agent" in sys.modules:
    importlib.import_module("_bdoc_agent.leaving").take_off()
tell("when bdoc has left")
"""
)
IN_C = ("fsync", "fdatasync", "_broadcast_coalesced")
PRIVATE = ["_engine_run_backward", "Work.wait"]  # by no means pickled, nor is their signature read
PUBLIC = [
    ("torch.autograd", "grad"),
    ("torch.autograd", "backward"),
    ("torch", "save"),
    ("torch.optim", "SGD.step"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Told]:
    """Plainly, and under bdoc: the names of what is replaced, then what was scripted and compiled."""
    return both_ways(tmp_path_factory.mktemp("names"), REPLACED % sorted(HOOKS) + SCRIPTED, fresh=True)


@pytest.fixture(scope="module")
def names(runs: tuple[Told, Told]) -> list[Any]:
    found = said(runs[1])["names"]
    assert len(found) > 20
    return [*(one for one in found if one[1] not in PRIVATE), *PUBLIC]


def test_each_replaced_function_is_known_as_before(names: list[Any], tmp_path: Path) -> None:
    alone, seen = both_ways(tmp_path, FACTS, fresh=True, NAMES=json.dumps(names))
    assert alone.status == 0, alone.stderr
    assert [*map(_of_python, seen.stdout.splitlines())] == [*map(_of_python, alone.stdout.splitlines())]


def _of_python(line: str) -> dict[str, Any]:
    """The facts that hold for a function of Python; of one in C a wrapper is another kind of thing."""
    told = json.loads(line)
    name = told["name"].rpartition(":")[2]
    in_c = name in IN_C or (name.startswith("_") and "profiler" in name)
    return {**told, "facts": told["facts"][4:] if in_c else told["facts"]}


SCRIPTED = """
import warnings
from typing import Optional
warnings.simplefilter("ignore")
import torch._dynamo
torch._dynamo.config.trace_autograd_ops = True

def force(x: torch.Tensor) -> Optional[torch.Tensor]:
    energy = (x * x * x).sum()
    return torch.autograd.grad([energy], [x])[0]

def attempt(when):
    fresh = type(force)(force.__code__, globals(), "force")  # neither has seen it before
    fresh.__annotations__ = force.__annotations__
    torch._dynamo.reset()
    for name, build in (
        ("scripted", torch.jit.script),
        ("compiled", lambda f: torch.compile(f, backend="eager", fullgraph=True)),
    ):
        try:
            result = build(fresh)(torch.ones(3, requires_grad=True)).tolist()
        except Exception as problem:
            result = type(problem).__name__
        say(when=when, how=name, result=result)

attempt("before")
for number, batch in enumerate(DataLoader(Rows(3000), batch_size=None)):
    train_on(batch)
    if number in (1, 1500, 1501):
        attempt(number)
    if number == 2000:
        break
attempt("after a break")
"""


def test_forces_by_autograd_grad_are_scripted_and_compiled_at_any_step(runs: tuple[Told, Told]) -> None:
    alone, seen = runs
    assert alone.stdout.count("[3.0, 3.0, 3.0]") == 10, alone.stderr
    assert seen.stdout.splitlines()[1:] == alone.stdout.splitlines()[1:]
