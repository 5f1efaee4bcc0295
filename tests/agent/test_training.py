"""Steps are counted in every shape of loop, although most of them are not sampled."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import loader, loop_without_loader, training, wire
from bottleneck_doctor.agent.loop_without_loader import CLOSURES
from bottleneck_doctor.agent.state import FIRST_LOOKS, STRIDE_AT_MOST, AgentState, IteratorCounts, state
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import PRELUDE, loops_over, profile_of, said, watched

ROLES = {
    "Held": "evaluation", "Left": "train", "Right": "train", "Ahead": "prefetch", "Paired": "train",
    "Within": "train", "Accumulated": "train", "Asking": "train",
}  # fmt: skip
# Each part trains in its own shape, in steps so short that most are not looked at closely.
SCRIPT = (
    PRELUDE
    + """
import threading, queue
for name in "Plain Accumulated Closed Paired Within Held Left Right Again Ahead Asked Asking".split():
    globals()[name] = type(name, (Rows,), {})
state = sys.modules["_bdoc_agent.state"].state
trained, before = {}, [0]

def loader(kind, length, **more):
    return DataLoader(kind(length), batch_size=4, **more)

def evaluated():
    training, held = loader(Plain, 400), loader(Held, 200)
    for epoch in range(3):
        for batch in training:
            train_on(batch)
        with torch.no_grad():
            for batch in held:
                model(batch)

def accumulated():
    training = loader(Accumulated, 800)
    for epoch in range(3):
        for place, batch in enumerate(training):
            (model(batch).square().mean() / 4).backward()
            if place % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

def closed():
    solver = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=3, tolerance_grad=0, tolerance_change=0)
    for batch in loader(Closed, 400):
        def closure():
            solver.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            return loss
        solver.step(closure)

def paired():
    other = torch.optim.Adam(model.parameters())
    for batch in loader(Paired, 800):
        model(batch).square().mean().backward()
        optimizer.step()
        other.step()
        optimizer.zero_grad()

def within():
    solvers = {one: torch.optim.SGD([one], lr=0.01) for one in model.parameters()}
    def update(one):
        solvers[one].step()
        solvers[one].zero_grad()
    hooks = [one.register_post_accumulate_grad_hook(update) for one in solvers]
    for batch in loader(Within, 800):
        model(batch).square().mean().backward()
    for hook in hooks:
        hook.remove()

def zipped():
    left, right = loader(Left, 400), loader(Right, 400)
    for epoch in range(3):
        for one, other in zip(left, right):
            train_on(one + other)

def again():
    training = loader(Again, 400, shuffle=True)
    for step in range(100):
        train_on(next(iter(training)))

def ahead():
    ready = queue.Queue(4)
    batches = iter(loader(Ahead, 400))
    def fill():
        for batch in batches:
            ready.put(batch)
        ready.put(None)
    thread = threading.Thread(target=fill)
    thread.start()
    while (batch := ready.get()) is not None:
        train_on(batch)
    thread.join()

def asked():
    held = iter(loader(Asked, 400))
    for place, batch in enumerate(loader(Asking, 800)):
        train_on(batch)
        if place % 20 == 19:
            with torch.no_grad():
                model(next(held))

def own():
    data = torch.randn(64, 4)
    for step in range(200):
        train_on(data[torch.randint(0, 64, (4,))])

for part in (evaluated, accumulated, closed, paired, within, zipped, again, ahead, asked, own):
    began = state.trained
    part()
    if part is not own:
        loader(Rows, 4).__iter__().__next__()  # whatever came last is over now
    trained[part.__name__] = state.trained - began
say(trained=trained)
"""
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Profile, Any]:
    told = watched(tmp_path_factory.mktemp("training"), SCRIPT)
    return said(told), profile_of(told), read_logs(told.folder)


@pytest.mark.parametrize(
    ("part", "steps"),
    [
        ("evaluated", 300),
        ("accumulated", 600),
        ("closed", 100),
        ("paired", 200),
        ("within", 200),
        ("zipped", 300),
        ("again", 100),
        ("ahead", 100),
        ("asked", 200),
        ("own", 200),
    ],
)
def test_the_steps_trained_are_counted(run: Any, part: str, steps: int) -> None:
    few = CLOSURES if part in ("ahead", "own") else 0  # beside a loader, a loop without one is believed late
    assert run[0]["trained"][part] == pytest.approx(steps, rel=0.05, abs=2 + few)


@pytest.mark.parametrize(
    ("dataset", "batches", "passes"),
    [
        ("Plain", 300, 300),
        ("Accumulated", 600, 600),
        ("Closed", 100, 300),
        ("Paired", 200, 200),
        ("Within", 200, 200),
        ("Again", 100, 100),
    ],
)
def test_batches_are_counted_exactly_and_backward_passes_nearly(
    run: Any, dataset: str, batches: int, passes: int
) -> None:
    one = loops_over(run[1], dataset)[0]
    assert (one.role, one.steps) == ("train", batches)
    assert one.backwards == pytest.approx(passes, rel=0.05, abs=4)


def test_roles_and_optimizer_steps_are_known(run: Any) -> None:
    found = {name: loops_over(run[1], name)[0] for name in ROLES}
    assert {name: one.role for name, one in found.items()} == ROLES
    assert (found["Held"].steps, found["Held"].backwards, found["Ahead"].thread != 0) == (150, 0, True)
    assert found["Paired"].optimizer_steps == pytest.approx(400, rel=0.2), "two optimizers"
    assert found["Within"].optimizer_steps == pytest.approx(200, rel=0.1), "all within a pass are one step"
    assert found["Accumulated"].optimizer_steps < 450


def test_a_step_in_a_thread_of_autograds_does_not_make_it_the_trainer(tmp_path: Path) -> None:
    """Hooks of CUDA tensors run there."""
    state.begin(str(tmp_path))
    loop_without_loader._forked()
    optimizer = SimpleNamespace(param_groups=[{"params": []}], state={})

    def of_one_parameter() -> None:
        training._before(optimizer, (), {})
        training._after(optimizer, (), {})

    with ThreadPoolExecutor(1) as engine:

        def backward(outputs: Any) -> None:
            for _ in range(5):
                engine.submit(of_one_parameter).result()

        following = loader._arrival(lambda iterator: None)
        passing = training._run_backward(backward)
        iterator = SimpleNamespace(_bdoc=IteratorCounts(1, 1, 0))
        for _ in range(200):
            following(iterator)
            passing(())
    loop_without_loader._forget()  # a hook that waits for the next call of any module
    assert state.trainer == 0
    assert state.trained + state.stride >= 150
    assert state.optimizer_steps <= 200


def test_most_steps_were_not_looked_at(run: Any) -> None:
    (log,) = run[2]
    assert len(log.rows) < 4 * sum(one.steps for one in run[1].loops)


MILLION = 1_000_000


@pytest.fixture
def pulse(tmp_path: Path) -> AgentState:
    one = AgentState()
    one.begin(str(tmp_path))
    return one


def looks(pulse: AgentState, count: int, step_ns: int, cost_ns: int) -> None:
    """Close looks as a loop would report them, each ``stride`` steps after the last."""
    at = 10**9
    for _ in range(count):
        at += step_ns * pulse.stride
        pulse.looked(cost_ns, at, pulse.stride)


@pytest.mark.parametrize("step_ns", [100_000, 1_000_000, 30_000_000])
def test_close_looks_take_at_most_half_a_percent_of_the_steps_and_later_half_of_that(
    pulse: AgentState, step_ns: int
) -> None:
    for share in (0.005, 0.0025):
        looks(pulse, FIRST_LOOKS, step_ns, cost_ns=12_000)
        assert 12_000 / (pulse.stride * step_ns) <= share
        least = 12_000 / max(1, pulse.stride - 1) / step_ns
        assert pulse.stride == 1 or least > 0.8 * share, "it looks as often as it may"


def test_ranks_of_different_pace_look_at_the_same_steps(pulse: AgentState) -> None:
    pulse.ranked = True
    seen = []
    for stride in (3, 7):
        pulse.stride, place, looked = stride, 0, set()
        while place < 2000:
            place += pulse.skip(place) + 1
            looked.add(place)
        seen.append({one for one in looked if one < 1900})
    often, seldom = seen
    assert seldom < often, "what one rank sees, the other has seen, too"
    assert 180 < len(seldom) < 300, "one in eight"
    assert {one % 4 for one in seldom} == {0, 1, 2, 3}, "at no beat of the training's own"


def _train(steps: int) -> None:
    """The hooks as a training calls them, around a loader and a model that do nothing."""
    following = loader._arrival(lambda iterator: None)
    backward = training._run_backward(lambda outputs: None)
    iterator = SimpleNamespace(_bdoc=IteratorCounts(1, 1, 0))
    for _ in range(steps):
        following(iterator)
        backward(())
        training._before(None, (), {})
        training._after(None, (), {})


def test_a_million_steps_stay_under_8_mib_and_are_all_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 10 ms by a clock of the test's own: nothing is skipped for being fast."""
    state.begin(str(tmp_path))
    clock = itertools.count(10**9, 5_000_000)
    monkeypatch.setattr(loader, "now", clock.__next__)
    monkeypatch.setattr(training, "now", clock.__next__)
    _train(MILLION)
    (log,) = read_logs(tmp_path)
    assert os.stat(next(tmp_path.glob("*.rows"))).st_blocks * 512 <= 8 << 20
    assert log.board["dropped"] == 0, "the stride grew before the file was full"
    last = log.of(wire.NEXT)[-1]
    assert MILLION - last.arrivals <= 2 * STRIDE_AT_MOST
    counted = [log.board["trained"], last.backwards, last.optimizer_steps]
    assert counted == [pytest.approx(last.arrivals, abs=2)] * 3
    assert len(log.of(wire.NEXT)) > 512, "and sampled from end to end"
