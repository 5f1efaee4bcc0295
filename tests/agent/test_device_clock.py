"""The device's clock is read without waiting for it, from marks around what a step does. Simulated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import device_clock, loop_without_loader, training, wire
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import read_logs
from tests.agent.watching import PRELUDE, first, watched


class Pretend:
    """A device whose clock stands until it is told to go on; a mark is passed when ``reached`` says so."""

    kind = "pretend"

    def __init__(self) -> None:
        self.now_ns = 0
        self.reached = 0
        self.capturing = False
        self.marks: list[int] = []
        self.released = 0

    def ready(self) -> bool:
        return not self.capturing

    def mark(self) -> int:
        self.marks.append(self.now_ns)
        return len(self.marks) - 1

    def passed(self, mark: int) -> bool:
        return mark < self.reached

    def between_ns(self, first: int, last: int) -> int:
        assert self.passed(last), "read before the device was there: a real one would wait or refuse"
        return self.marks[last] - self.marks[first]

    def release(self, marks: list[int]) -> None:
        self.released += len(marks)

    def stream(self) -> int:
        return 0

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "index": 0, "name": "a pretended device"}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Pretend]:
    before = dict(state.__dict__)
    state.begin(str(tmp_path))
    state.accelerator = Pretend()
    yield state.accelerator
    loop_without_loader._forget()  # a hook that waits for the next call of any module
    state.__dict__.clear()
    state.__dict__.update(before)


def rows_of(folder: Path, kind: int) -> list[Any]:
    return [row for log in read_logs(folder) for row in log.rows if row.kind == kind]


def step(device: Pretend, wait_ns: int, work_ns: int) -> None:
    device_clock.ask("loop", 7)
    device.now_ns += wait_ns
    device_clock.got("loop")
    token = device_clock.begin()
    device.now_ns += work_ns
    device_clock.part(token, wire.DEVICE_PARTS.index("backward"))
    device_clock.end("loop")


@pytest.mark.parametrize("within", [True, False])
def test_a_loop_steps_once_a_pass_wherever_its_optimizers_step(device: Pretend, within: bool) -> None:
    loop_without_loader._forked()
    optimizer = SimpleNamespace(param_groups=[{"params": []}], state={})

    def update() -> None:
        training._before(optimizer, (), {})
        training._after(optimizer, (), {})

    def backward(outputs: Any) -> None:
        for _ in range(20 if within else 0):  # one for each parameter
            update()

    passing = training._run_backward(backward)
    for _ in range(100):
        passing(())
        if not within:
            update()
    assert state.trained == pytest.approx(100, abs=2 + loop_without_loader.ALONE_FROM)


def test_a_step_that_computes_on_a_stream_of_its_own_is_not_timed(device: Pretend, tmp_path: Path) -> None:
    device_clock.ask("loop", 7)
    device_clock.got("loop")
    device_clock.begin()  # a copy that runs ahead may be where it likes
    device.stream = lambda: 5  # type: ignore[method-assign]
    assert device_clock.begin() is not None
    assert device_clock.begin(True) is None
    assert state.accelerator is None
    (log,) = read_logs(tmp_path)
    assert "a stream of its own" in first(log, "device_silent")["why"]


def test_a_step_is_written_once_the_device_has_come_past_it(device: Pretend, tmp_path: Path) -> None:
    step(device, 300, 1000)
    assert rows_of(tmp_path, wire.DEVICE_STEP) == []
    device.reached = len(device.marks)
    step(device, 0, 500)
    (row,) = rows_of(tmp_path, wire.DEVICE_STEP)
    assert (row.wait_ns, row.whole_ns, row.loader) == (300, 1300, 7)
    (part,) = rows_of(tmp_path, wire.DEVICE_PART)
    assert (part.device_ns, wire.DEVICE_PARTS[part.part]) == (1000, "backward")
    assert device.released == 5


def test_whether_the_device_had_caught_up_is_asked_when_the_step_ends(
    device: Pretend, tmp_path: Path
) -> None:
    step(device, 0, 100)
    device.reached = len(device.marks) + 4  # the next step's work is done before it ends
    step(device, 0, 100)
    device.reached = len(device.marks)
    device_clock.ask("loop", 7)
    assert [row.caught_up for row in rows_of(tmp_path, wire.DEVICE_STEP)] == [0, 1]


def test_a_device_far_behind_costs_a_bounded_number_of_marks(device: Pretend) -> None:
    for _ in range(3 * device_clock.PENDING_AT_MOST):
        step(device, 0, 100)
    assert len(state.pending) == device_clock.PENDING_AT_MOST


def test_of_a_device_that_is_always_far_behind_the_oldest_looks_are_written(
    device: Pretend, tmp_path: Path
) -> None:
    """Twenty steps behind, each look was given up before it was passed, and none was ever written."""
    passed: list[int] = []
    for _ in range(60):
        step(device, 0, 100)
        passed.append(len(device.marks))
        device.reached = passed[-20] if len(passed) >= 20 else 0
    assert len(rows_of(tmp_path, wire.DEVICE_STEP)) >= 10


FORKED = """
import gc, os, sys
from bottleneck_doctor.agent import device_clock, training
from bottleneck_doctor.agent.state import begin, state

log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

class Mark:
    def __del__(self, write=os.write, getpid=os.getpid):
        write(log, b"%d\\n" % getpid())

class Device:
    def __init__(self):
        self.spare = [Mark(), Mark()]
    def ready(self):
        return True
    def mark(self):
        return Mark()
    def stream(self):
        return 0
    def passed(self, mark):
        return False

begin(sys.argv[1])
state.accelerator = Device()
for _ in range(3):
    device_clock.ask("loop", 7)
    device_clock.got("loop")
    device_clock.end("loop")
device_clock.ask("loop", 7)
training._Open.token = (Mark(), 0)
child = os.fork()
gc.collect()
if child:
    print(child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    training._Open.token = None  # what the child's own first step would do
    device_clock.drop()
    gc.collect()
"""


def test_no_mark_is_destroyed_in_a_forked_child(tmp_path: Path) -> None:
    """torch 2.13 asks the driver when an event goes, which ends a forked child with SIGABRT."""
    pytest.importorskip("torch")
    script, log = tmp_path / "forks.py", tmp_path / "destroyed"
    script.write_text(FORKED.replace("\\\\n", "\\n"))
    command = [
        sys.executable,
        "-c",
        f"import torch; exec(open({str(script)!r}).read())",
        str(tmp_path),
        str(log),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    child, status = done.stdout.split()
    assert status == "0"
    destroyed = log.read_text().split()
    assert child not in destroyed
    assert len(set(destroyed)) == 1, "the parent's own marks go when it ends"


def test_a_clock_that_costs_too_much_is_read_more_rarely(device: Pretend) -> None:
    looks = 0
    for state.arrivals in range(1000):
        before = device.reached = len(device.marks)
        step(device, 0, 100)
        if len(device.marks) > before:
            looks += 1
        state.clock_ns = 4 * looks * device_clock.BUDGET_NS  # as if a look cost what four steps may
    assert 200 <= looks <= 1000 / 4 + device_clock.ADVANCE / 4 + 1


def test_no_mark_is_set_while_a_graph_is_captured(device: Pretend) -> None:
    device.capturing = True
    step(device, 0, 100)
    assert device.marks == []


def test_another_loader_inside_of_a_step_ends_the_look(device: Pretend, tmp_path: Path) -> None:
    device_clock.ask("loop", 7)
    device_clock.got("loop")
    device_clock.drop()
    device_clock.end("loop")
    assert state.pending == []


def test_a_second_loader_of_the_same_loop_does_not_take_the_look_over(device: Pretend) -> None:
    device_clock.ask("loop", 7)
    device_clock.got("loop")
    device_clock.ask("another", 8)
    device_clock.got("another")
    device_clock.end("another")
    assert state.pending == []
    device_clock.end("loop")
    assert [look.thing for look in state.pending] == [7]


def test_a_loop_that_was_left_does_not_keep_the_look_for_ever(device: Pretend) -> None:
    device_clock.ask("left", 6)
    device_clock.got("left")
    for _ in range(device_clock.OTHERS_AT_MOST + 1):
        step(device, 0, 100)
    assert [look.thing for look in state.pending] == [7]


def test_a_step_that_somebody_else_ends_is_not_counted(device: Pretend) -> None:
    device_clock.ask("loop", 7)
    device_clock.got("loop")
    device_clock.end("another")
    assert state.pending == []
    device_clock.end("loop")
    assert len(state.pending) == 1


def test_a_device_that_refuses_is_left_alone_and_why_is_written(device: Pretend, tmp_path: Path) -> None:
    def refuse() -> int:
        raise RuntimeError("events cannot be timed here")

    device.mark = refuse  # type: ignore[method-assign]
    step(device, 0, 100)
    assert state.accelerator is None
    (log,) = read_logs(tmp_path)
    assert "events cannot be timed here" in str(first(log, "device_silent"))


SCRIPT = (
    PRELUDE
    + """
class Device:  # simulated: a stream whose work is done at an instant
    kind, busy_until = "simulated", 0
    def ready(self): return True
    def stream(self): return 0
    def release(self, marks): pass
    def mark(self): return max(time.monotonic_ns(), Device.busy_until)
    def passed(self, mark): return time.monotonic_ns() >= mark
    def between_ns(self, first, last): return last - first
    def describe(self): return {"kind": "simulated", "index": 0, "name": "simulated"}

def launch(seconds):
    Device.busy_until = max(time.monotonic_ns(), Device.busy_until) + int(seconds * 1e9)

class Slow(Rows):
    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)

clock = sys.modules.get("_bdoc_agent.device_clock")
if clock is not None:
    clock.adopt(Device())
for batch in DataLoader(Slow(40), batch_size=4):
    launch(LAUNCHED)
    train_on(batch)
"""
)


def looks(folder: Path, launched: float) -> list[Any]:
    told = watched(folder, SCRIPT.replace("LAUNCHED", str(launched)))
    assert told.status == 0, told
    return rows_of(told.folder, wire.DEVICE_STEP)


def test_a_wait_is_exposed_where_the_device_has_nothing_to_do(tmp_path: Path) -> None:
    exposed = [row.wait_ns / row.whole_ns for row in looks(tmp_path, 0.0001)]
    assert exposed
    assert min(exposed[1:]) > 0.5  # the first step of all builds what later ones keep


def test_a_wait_behind_queued_work_is_not_exposed(tmp_path: Path) -> None:
    exposed = [row.wait_ns / row.whole_ns for row in looks(tmp_path, 0.03)]
    assert exposed
    assert max(exposed[1:]) < 0.1


def test_an_optimizer_whose_first_group_is_empty_tells_its_device(
    device: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setattr(device_clock.accelerators, "find", lambda torch, where: asked.append(where))
    state.accelerator, state.seeking = None, True
    weight = SimpleNamespace(device="cuda:1")
    device_clock.seek(SimpleNamespace(param_groups=[{"params": []}, {"params": [weight]}]))
    assert asked == ["cuda:1"]
    device_clock.seek(SimpleNamespace(param_groups=[{"params": []}]))
    assert asked == ["cuda:1"], "nothing is known yet: the current device may be another one"
    assert state.seeking
