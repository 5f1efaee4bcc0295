"""Functions of torch stay what others take them for: TorchScript, Dynamo, overrides, pickle, inspect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent.hooks import HOOKS
from tests.agent.watching import PRELUDE, plain, said, watched

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
def names(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    found = said(watched(tmp_path_factory.mktemp("names"), REPLACED % sorted(HOOKS), fresh=True))["names"]
    assert len(found) > 20
    return [*(one for one in found if one[1] not in PRIVATE), *PUBLIC]


def test_each_replaced_function_is_known_as_before(names: list[Any], tmp_path: Path) -> None:
    for name in ("alone", "seen"):
        (tmp_path / name).mkdir()
    alone = plain(tmp_path / "alone", FACTS, NAMES=json.dumps(names))
    seen = watched(tmp_path / "seen", FACTS, fresh=True, NAMES=json.dumps(names))
    assert alone.status == 0, alone.stderr
    assert [*map(_of_python, seen.stdout.splitlines())] == [*map(_of_python, alone.stdout.splitlines())]


def _of_python(line: str) -> dict[str, Any]:
    """The facts that hold for a function of Python; of one in C a wrapper is another kind of thing."""
    told = json.loads(line)
    name = told["name"].rpartition(":")[2]
    in_c = name in IN_C or (name.startswith("_") and "profiler" in name)
    return {**told, "facts": told["facts"][4:] if in_c else told["facts"]}


SCRIPTED = (
    PRELUDE
    + """
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
    if number in (1, 50, 1500, 1501, 1502, 1503):
        attempt(number)
    if number == 2000:
        break
attempt("after a break")
"""
)


def test_forces_by_autograd_grad_are_scripted_and_compiled_at_any_step(tmp_path: Path) -> None:
    for name in ("alone", "seen"):
        (tmp_path / name).mkdir()
    alone, seen = plain(tmp_path / "alone", SCRIPTED), watched(tmp_path / "seen", SCRIPTED, fresh=True)
    assert alone.stdout.count("[3.0, 3.0, 3.0]") == 16, alone.stderr
    assert seen.stdout.splitlines() == alone.stdout.splitlines()
