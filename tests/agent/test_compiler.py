"""Numbers, random streams, compiled graphs and memory are what they are without us."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.watching import PRELUDE, Told, plain, profile_of, said, watched

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


COMPILED = (
    PRELUDE
    + """
import tempfile
import torch.distributed as dist
dist.init_process_group("gloo", "file://" + tempfile.mkdtemp() + "/meeting", rank=0, world_size=1)

def added(batch):
    total = batch * 2
    dist.all_reduce(total)
    return total + 1

explained = torch._dynamo.explain(added)(torch.ones(4))
say(graphs=explained.graph_count, breaks=explained.graph_break_count, result=added(torch.ones(4)).tolist())
dist.destroy_process_group()
"""
)


@pytest.mark.slow
def test_a_collective_is_compiled_as_it_would_be(tmp_path: Any) -> None:
    for name in ("alone", "seen"):
        (tmp_path / name).mkdir()
    alone, seen = plain(tmp_path / "alone", COMPILED), watched(tmp_path / "seen", COMPILED)
    assert alone.status == 0, alone.stderr
    assert (seen.status, seen.stdout) == (alone.status, alone.stdout), seen.stderr
