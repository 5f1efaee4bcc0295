"""Loops without a loader are timed by their backward passes; the profiler's window of one step."""

from __future__ import annotations

from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bottleneck_doctor.agent.loop_without_loader import ALONE_FROM
from bottleneck_doctor.agent.profiler import CALL_US, dissect
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.launch.board import Board
from bottleneck_doctor.model.loops import Loop
from tests.agent.watching import PRELUDE, Told, loops_over, plain, profile_of, said, watched

STEPS = 40
# What each loop begins with: its model, and batches that take 2 ms, more than the rest of the step.
HEAD = (
    PRELUDE
    + f"""
STEPS = {STEPS}
counters = {{}}

def batches():
    for step in range(STEPS):
        yield get_batch()

def get_batch():
    until = time.perf_counter() + 0.002
    while time.perf_counter() < until:
        pass
    return torch.ones(2, 4)

def main():
"""
)
TAIL = """
    say(counters=counters)

main()
"""
GENERATOR = """
    for batch in batches():
        train_on(batch)
"""
BY_HAND = """
    weight = torch.zeros(4, 1, requires_grad=True)
    for step in range(STEPS):
        x = get_batch()
        loss = (x @ weight - 1).square().mean()
        loss.backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
            weight.grad = None
"""
CLOSURE = """
    solver = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=4, tolerance_grad=0, tolerance_change=0)
    for step in range(STEPS // 4):
        x = get_batch()
        def closure():
            solver.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss
        solver.step(closure)
"""
ACCUMULATED = """
    for step in range(STEPS // 4):
        for micro in range(4):
            x = get_batch()
            (model(x).square().mean() / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
"""
COMPILED = """
    import torch._dynamo.utils
    inner = torch.compile(model, backend="eager")
    for step in range(STEPS):
        x = get_batch()
        optimizer.zero_grad()
        loss = inner(x).square().mean()
        loss.backward()
        optimizer.step()
    seen = torch._dynamo.utils.counters
    counters.update(breaks=sum(seen["graph_break"].values()), graphs=seen["stats"]["unique_graphs"])
"""
AHEAD = """
    x = get_batch()
    for step in range(STEPS):
        loss = model(x).square().mean()
        x = get_batch()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    say(hooks=len(model._forward_hooks))
"""
EVALUATED = """
    held_out = torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2)
    for step, x in enumerate(batches()):
        train_on(x)
        if step % 5 == 4:
            with torch.no_grad():
                for kept in held_out:
                    model(kept)
"""
FED = """
    import queue, threading
    waiting = queue.Queue(1)
    def feed():
        for batch in batches():
            time.sleep(0.004)
            waiting.put(batch)
    feeding = threading.Thread(target=feed, daemon=True)
    feeding.start()
    for step in range(STEPS):
        train_on(waiting.get())
    say(feeder=feeding.native_id, waited=threading.Condition.wait.__qualname__)
"""
EVERY_FIFTH = "an evaluation of every fifth step"
LOOPS = {
    "next batch ahead": AHEAD, EVERY_FIFTH: EVALUATED,
    "generator": GENERATOR, "no optimizer": BY_HAND,
    "closure": CLOSURE, "accumulation": ACCUMULATED, "compiled": COMPILED,
    "fed by a thread": FED,
}  # fmt: skip
GAPS = {"generator", "accumulation", "compiled"}  # modules are called, once in a step


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each loop, run once."""
    known: dict[str, Told] = {}

    def run(name: str) -> Told:
        if name not in known:
            known[name] = watched(tmp_path_factory.mktemp("own"), HEAD + LOOPS[name] + TAIL)
        return known[name]

    return run


def outside(told: Told) -> Loop:
    (found,) = profile_of(told).outside
    return found


@pytest.mark.parametrize("name", list(LOOPS))
def test_each_backward_pass_is_a_step(runs: Any, name: str) -> None:
    told = runs(name)
    assert (told.status, told.stderr) == (0, "")
    found = outside(told)
    late = 20 if name == EVERY_FIFTH else 4  # behind the last look; evaluations make looks dearer, and rarer
    steps = range(STEPS - ALONE_FROM - late, STEPS - ALONE_FROM + 5)
    assert sum(found.table.steps) == found.steps
    assert found.steps in steps
    (log,) = read_logs(told.folder)
    assert log.board["trained"] in steps
    assert found.body is not None, "the loop around it is found in the source"
    assert (found.body.function, found.body.first > HEAD.count("\n")) == ("main", True)
    if name == "no optimizer":  # no module is called
        assert set(found.table.gap_s) == {None}


def test_the_loop_of_a_loader_is_the_one_that_asks_it_for_batches(tmp_path: Any) -> None:
    """Not the one over the parts of a batch, in which the backward pass is."""
    script = (
        PRELUDE
        + """
for epoch in range(2):
    for batch in DataLoader(Rows(64), batch_size=4):  # asks
        for part in batch.split(1):
            train_on(part)
"""
    )
    (loop,) = loops_over(profile_of(watched(tmp_path, script)), "Rows")
    asks = next(number for number, line in enumerate(script.splitlines(), 1) if "# asks" in line)
    assert loop.body is not None
    assert (loop.body.first, loop.body.function) == (asks, "<module>")


@pytest.mark.parametrize("name", sorted(GAPS))
def test_the_batch_is_got_before_the_model_is_called(runs: Any, name: str) -> None:
    found = outside(runs(name))
    known = [
        (gap, wall)
        for gap, wall in zip(found.table.gap_s, found.table.wall_s, strict=True)
        if gap is not None
    ]
    assert len(known) >= len(found.table.t) - 2
    steps = sum(found.table.steps) - 2
    assert sum(gap for gap, _ in known) > 0.9 * 0.002 * steps
    assert sum(gap for gap, _ in known) < sum(wall for _, wall in known)


def test_the_next_batch_is_got_between_the_model_and_the_backward_pass(runs: Any) -> None:
    found = outside(runs("next batch ahead"))
    late = [value for value in found.table.late_s if value is not None]
    assert len(late) >= len(found.table.t) - 2
    assert sum(late) > 0.9 * 0.002 * (sum(found.table.steps) - 2)
    assert median(gap or 0.0 for gap in found.table.gap_s) < 0.2 * median(late)
    assert said(runs("next batch ahead"))["hooks"] == 0, "hooks come and go with a call"


def test_waiting_for_a_queue_is_timed_in_every_step(runs: Any) -> None:
    """The thread that feeds it takes 6 ms a batch, the step about one."""
    fed, alone = outside(runs("fed by a thread")).table, outside(runs("generator")).table
    assert median(map(truediv, fed.queued_s, fed.wall_s)) > 0.6
    assert sum(fed.wall_s) > 0.5 * 0.006 * sum(fed.steps)
    assert sum(alone.queued_s) == 0
    assert said(runs("fed by a thread"))["waited"] == "Condition.wait"


def test_the_thread_that_wakes_the_loop_is_told_to_the_sensors(runs: Any) -> None:
    board = Board(runs("fed by a thread").folder, in_command=False)
    board.refresh()
    assert [thread for _, thread in board.feeding()] == [said(runs("fed by a thread"))["feeder"]]
    alone = Board(runs("generator").folder, in_command=False)
    alone.refresh()
    assert alone.feeding() == []


def test_code_is_compiled_as_without_us(runs: Any, tmp_path: Any) -> None:
    alone = plain(tmp_path, HEAD + COMPILED + TAIL)
    if alone.status != 0 and "dynamo" in alone.stderr:
        pytest.skip("torch.compile does not work here")
    assert said(alone) == said(runs("compiled"))
    assert alone.stderr == runs("compiled").stderr


SCRIPT = (
    PRELUDE
    + """
agent = sys.modules["_bdoc_agent.state"].state
training = DataLoader(Rows(20), batch_size=1)
for batch in training:
    train_on(batch)
for held in DataLoader(Rows(20), batch_size=1):
    agent.control.on_profile()  # no training loop is open now
    print("evaluating", agent.window is not None)
    break
for batch in training:
    agent.control.on_profile()
    print("training", agent.window is not None)
    agent.window.leave()
    break
"""
)


def test_no_window_opens_in_an_evaluation_between_two_epochs(tmp_path: Path) -> None:
    assert watched(tmp_path, SCRIPT).stdout == "evaluating False\ntraining True\n"


ASIDE = (
    PRELUDE
    + """
import threading
agent = sys.modules["_bdoc_agent.state"].state

def fetch():
    for batch in DataLoader(Rows(4), batch_size=1):
        pass

for step in range(20):
    if step == 15:
        agent.control.on_profile()
        aside = threading.Thread(target=fetch)
        aside.start()
        aside.join()
        print("while others fetch", torch.autograd._profiler_enabled())
    train_on(torch.ones(2, 4))
print("at the end", torch.autograd._profiler_enabled())
"""
)


def test_a_window_is_not_ended_by_a_thread_that_fetches_ahead(tmp_path: Path) -> None:
    """torch cannot end it there: it would record for ever, and look like a profiler of the script's own."""
    told = watched(tmp_path, ASIDE)
    assert told.stdout == "while others fetch True\nat the end False\n"
    computing = profile_of(told).computing
    assert [one.noticed for one in computing.switches] == [[]]
    assert [one.backwards for one in computing.anatomies] == [1]


@dataclass
class Record:
    """What the profiler writes at the beginning and at the end of a span."""

    which: str
    called: str
    us: float

    def kind(self) -> str:
        return self.which

    def name(self) -> str:
        return self.called

    def cpu_elapsed_us(self, later: Record) -> float:
        return later.us - self.us


def step(*spans: tuple[str, float, float], end: float = 0.0) -> list[Record]:
    """(name, begin, end) in the order of beginning, between the profiler's own marks."""
    edges = [(begin, place, Record("push", name, begin)) for place, (name, begin, _) in enumerate(spans)]
    edges += [(end, -place, Record("pop", "", end)) for place, (_, _, end) in enumerate(spans)]
    inside = [record for _, _, record in sorted(edges, key=lambda edge: edge[:2])]
    last = end or max(record.us for record in inside)
    return [Record("mark", "__start_profile", 0.0), *inside, Record("mark", "__stop_profile", last)]


def test_an_operators_own_time_is_without_those_inside() -> None:
    table: dict[str, list[Any]] = {}
    assert dissect([Record("pop", "", 1.0)], {}).operators == 0, "a table that was cut short"
    found = dissect(step(("aten::linear", 10, 310), ("aten::addmm", 20, 300)), table)
    assert (found.operators, found.own) == (2, 300)
    assert (found.large, found.beyond) == (280, 280 - CALL_US + 20 - CALL_US)
    assert table == {"aten::linear": [1, 20], "aten::addmm": [1, 280]}


def test_short_and_long_pauses_are_told_apart_up_to_the_end_of_the_step() -> None:
    spans = [("my part", 0, 1200), ("aten::mm", 20, 30), ("MulBackward0", 45, 50), ("aten::mm", 250, 260)]
    found = dissect(step(*spans, end=1260), {})
    assert (found.short, found.long) == (20 + 15, 200 + 1000)
