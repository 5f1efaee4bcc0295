"""Numbers, random streams, compiled graphs and memory are what they are without us."""

from typing import Any

import pytest

from tests.agent.watching import PRELUDE, Told, both_ways, plain, profile_of, said, watched

MOST_MEMORY_KIB = 20 * 1024

# Eager backend: the graphs are traced, and no compiler is needed to run them.
SCRIPT = (
    PRELUDE
    + """
import hashlib, random
import torch._dynamo.utils

class Noisy(Rows):
    def __getitem__(self, index):
        return super().__getitem__(index) + torch.rand(4) + random.random()

def digest(thing):
    return hashlib.sha256(repr(thing).encode()).hexdigest()

def trained(step, loader):
    return [step(batch).item().hex() for epoch in range(2) for batch in loader]

def main():
    random.seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), model)
    inner = torch.compile(layers, backend="aot_eager")  # differentiates while it traces
    solver = torch.optim.Adam(inner.parameters())

    def usual(batch):
        solver.zero_grad()
        loss = inner(batch).square().mean()
        loss.backward()
        solver.step()
        return loss

    @torch.compile(backend="eager")
    def whole(batch):
        solver.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        solver.step()
        return loss

    @torch.compile(backend="eager")
    def step_only():
        solver.step()

    def apart(batch):
        loss = model(batch).square().mean()
        loss.backward()
        step_only()
        return loss

    @torch.compile(backend="eager")
    def saved(batch):
        moved = batch.to(torch.float64) + 1
        torch.save(moved, "moved.pt")
        return (moved * 2).sum()

    loader = DataLoader(Noisy(48), batch_size=2, shuffle=True)
    apart_from_us = DataLoader(Noisy(8), batch_size=2, shuffle=True, num_workers=1)
    losses = [trained(step, loader) for step in (usual, whole, apart, saved)]
    losses.append(trained(usual, apart_from_us))
    counters = torch._dynamo.utils.counters
    say(
        losses=losses,
        torch_stream=digest(torch.get_rng_state().tolist()), python_stream=digest(random.getstate()),
        breaks=sum(counters["graph_break"].values()), graphs=counters["stats"]["unique_graphs"],
        compilations=len(torch._dynamo.utils.get_compilation_metrics()),
        memory_kib=int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0]),
    )

if __name__ == "__main__":
    main()
"""
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Told]:
    alone = plain(tmp_path_factory.mktemp("plain"), SCRIPT)
    if alone.status != 0 and "dynamo" in alone.stderr:
        pytest.skip("torch.compile does not work here")
    seen = watched(tmp_path_factory.mktemp("watched"), SCRIPT)
    return said(alone), said(seen), seen


@pytest.mark.parametrize("what", ["losses", "torch_stream", "python_stream"])
def test_every_bit_is_the_same(what: str, both: Any) -> None:
    assert both[0][what] == both[1][what]


def test_the_losses_are_losses(both: Any) -> None:
    assert [len(losses) for losses in both[0]["losses"]] == [48, 48, 48, 48, 8]


@pytest.mark.parametrize("what", ["breaks", "graphs", "compilations"])
def test_compiled_graphs_are_the_same(what: str, both: Any) -> None:
    assert both[0][what] > 0
    assert both[0][what] == both[1][what]


def test_the_compiler_does_not_complain_of_us(both: Any) -> None:
    assert "bdoc" not in both[2].stderr
    assert "bottleneck_doctor" not in both[2].stderr


def test_what_the_compiler_switches_on_for_itself_is_not_the_scripts(both: Any) -> None:
    (found,) = profile_of(both[2]).computing.switches
    assert (found.anomaly, found.noticed) == (False, [])


def test_a_process_grows_by_less_than_20_mib(both: Any) -> None:
    assert both[1]["memory_kib"] - both[0]["memory_kib"] < MOST_MEMORY_KIB


# Compiled while the hooks are off; torch warns of hooks on all modules.
LATE = (
    PRELUDE
    + """
import warnings
import torch._dynamo.utils
warnings.simplefilter("always")

def compiled(what):
    step = optimizer.step
    net = torch.compile(model, backend="eager", fullgraph=what == "fullgraph")
    if what == "whole":
        step = torch.compile(optimizer.step, backend="eager")
    return net, step

for what in ("whole", "fullgraph", "autograd"):
    torch._dynamo.reset()
    torch._dynamo.config.compiled_autograd = what == "autograd"
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    net, step, known = model, optimizer.step, len(torch._dynamo.utils.get_compilation_metrics())
    with warnings.catch_warnings(record=True) as heard:
        for epoch in range(2):
            for number, batch in enumerate(DataLoader(Rows(400), batch_size=None)):
                if (epoch, number) == (0 if what == "whole" else 1, 250):
                    net, step = compiled(what)
                optimizer.zero_grad()
                net(batch).square().mean().backward()
                step()
    metrics = torch._dynamo.utils.get_compilation_metrics()[known:]
    say(
        what=what, breaks=sum(torch._dynamo.utils.counters["graph_break"].values()),
        graphs=[(one.co_name, one.recompile_reason) for one in metrics],
        warnings=sorted({str(one.message) for one in heard}),
    )
"""
)


def test_code_that_is_compiled_late_is_compiled_as_it_would_be(tmp_path: Any) -> None:
    alone, seen = both_ways(tmp_path, LATE)
    if alone.status != 0 and "dynamo" in alone.stderr:
        pytest.skip("torch.compile does not work here")
    assert alone.stdout.count('"graphs": [[') >= 3, alone.stdout
    assert seen.stdout.splitlines() == alone.stdout.splitlines()


DISTRIBUTED = (
    PRELUDE
    + """
import logging, tempfile
import torch.distributed as dist
dist.init_process_group("gloo", "file://" + tempfile.mkdtemp() + "/meeting", rank=0, world_size=1)

def explain(name, call):
    def step(batch):
        total = batch * 2
        call(total)
        return total + 1

    torch._dynamo.reset()
    try:
        found = torch._dynamo.explain(step)(torch.ones(4))
        result = step(torch.ones(4)).tolist()
        say(name=name, graphs=found.graph_count, breaks=found.graph_break_count, result=result)
    except Exception as problem:
        say(name=name, problem=type(problem).__name__)

explain("all_reduce", lambda total: dist.all_reduce(total))
explain("later", lambda total: dist.all_reduce(total, async_op=True).wait())
explain("objects", lambda total: dist.all_gather_object([None], 1))
explain("saved", lambda total: torch.save(total, "total.pt"))
explain("logged", lambda total: logging.getLogger("a").info("step"))
dist.destroy_process_group()
"""
)


@pytest.mark.slow
def test_what_compiled_code_calls_breaks_graphs_as_it_would(tmp_path: Any) -> None:
    alone, seen = both_ways(tmp_path, DISTRIBUTED, fresh=True)
    assert alone.status == 0, alone.stderr
    assert (seen.status, seen.stdout) == (alone.status, alone.stdout), seen.stderr
