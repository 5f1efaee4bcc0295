"""Which accelerator is meant, and how its clock is read without waiting for it. Simulated."""

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import compiler, device_clock, loop_without_loader, profiler, trace_window, wire
from bottleneck_doctor.agent.state import FIRST_LOOKS, state
from bottleneck_doctor.agent.torch_setup import _computes_on
from bottleneck_doctor.assemble.rows import read_logs
from tests.agent.meta_device import rows_of
from tests.agent.watching import first
from tests.simulated import torch_api
from tests.simulated.torch_api import Driver, Torch


class Pretend(Driver):
    """A device whose clock stands until it is told to go on; a mark is passed when ``reached`` says so."""

    kind = "pretend"

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = self.reached = 0
        self.marks: list[int] = []
        self.end_process = lambda: pytest.fail("a real device would end the process here")

    def mark(self) -> int:
        self.marks.append(self.now_ns)
        return len(self.marks) - 1

    def passed(self, mark: int) -> bool:
        return mark < self.reached

    def between_ns(self, first: int, last: int) -> int:
        return self.marks[last] - self.marks[first]


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Pretend]:
    before = dict(state.__dict__)
    state.begin(str(tmp_path))
    found = Pretend()
    state.accelerator = torch_api.in_use(found, device_clock)
    state.clock_ns = -(10**12)  # on a busy machine a single look may cost the whole budget
    yield found
    loop_without_loader._forget()  # a hook that waits for the next call of any module
    state.__dict__.clear()
    state.__dict__.update(before)


def step(device: Pretend, wait_ns: int, work_ns: int) -> None:
    device_clock.ask("loop", 7)
    device.now_ns += wait_ns
    device_clock.got("loop")
    token = device_clock.begin()
    device.now_ns += work_ns
    device_clock.part(token, wire.DEVICE_PARTS.index("backward"))
    device_clock.end("loop")


@pytest.mark.parametrize("steps", [11, device_clock.ELSEWHERE_AT_MOST])
def test_steps_on_a_side_stream_are_dropped_and_end_the_clock_only_where_all_are(
    device: Pretend, tmp_path: Path, steps: int
) -> None:
    """As a script warms up before it captures a graph: torch's own recipe for DDP does so eleven times."""
    for _ in range(steps):
        device_clock.ask("loop", 7)
        device_clock.got("loop")
        device.stream = 5
        assert device_clock.begin() is not None, "a copy may run ahead on another stream"
        assert device_clock.begin(True) is None
        device.stream = 0
        device_clock.end("loop")
    assert state.pending == []
    step(device, 300, 1000)
    device.reached = len(device.marks)
    device_clock.ask("loop", 7)
    (log,) = read_logs(tmp_path)
    given_up = steps == device_clock.ELSEWHERE_AT_MOST
    assert ("a stream of its own" in first(log, "device_silent").get("why", "")) is given_up
    assert len(rows_of(tmp_path, wire.DEVICE_STEP)) == (not given_up)


def test_a_step_is_written_once_the_device_has_come_past_it(device: Pretend, tmp_path: Path) -> None:
    step(device, 300, 1000)
    assert rows_of(tmp_path, wire.DEVICE_STEP) == []
    device.reached = len(device.marks)
    step(device, 0, 500)
    (row,) = rows_of(tmp_path, wire.DEVICE_STEP)
    assert (row.wait_ns, row.whole_ns, row.loader) == (300, 1300, 7)
    (part,) = rows_of(tmp_path, wire.DEVICE_PART)
    assert (part.device_ns, wire.DEVICE_PARTS[part.part]) == (1000, "backward")
    assert device.created == 6, "five are used again; the sixth was set before they were read"


def test_whether_the_device_had_caught_up_is_asked_when_the_step_ends(
    device: Pretend, tmp_path: Path
) -> None:
    step(device, 0, 100)
    device.reached = len(device.marks) + 4  # the next step's work is done before it ends
    step(device, 0, 100)
    device.reached = len(device.marks)
    device_clock.ask("loop", 7)
    assert [row.caught_up for row in rows_of(tmp_path, wire.DEVICE_STEP)] == [0, 1]


def test_of_a_device_that_is_always_far_behind_the_oldest_looks_are_written(
    device: Pretend, tmp_path: Path
) -> None:
    """Twenty steps behind, each look was given up before it was passed, and none was ever written."""
    passed: list[int] = []
    for _ in range(60):
        step(device, 0, 100)
        passed.append(len(device.marks))
        device.reached = passed[-20] if len(passed) >= 20 else 0
        assert len(state.pending) <= device_clock.PENDING_AT_MOST
    assert len(rows_of(tmp_path, wire.DEVICE_STEP)) >= 10


def test_a_clock_that_costs_too_much_is_read_more_rarely(device: Pretend) -> None:
    looks = 0
    for state.arrivals in range(1000):
        before = device.reached = len(device.marks)
        step(device, 0, 100)
        if len(device.marks) > before:
            looks += 1
        state.clock_ns = 4 * looks * device_clock.BUDGET_NS  # as if a look cost what four steps may
    assert 200 <= looks <= 1000 / 4 + FIRST_LOOKS / 4 + 1


@pytest.mark.parametrize("way", ["dropped", "captured at its end", "left before its batch"])
def test_a_step_that_is_not_counted_gives_its_marks_back(device: Pretend, way: str) -> None:
    """They are never freed: each that was lost would stay for ever."""
    for _ in range(1000):
        device_clock.ask("loop", 7)
        token = device_clock.begin()
        if way != "left before its batch":
            device_clock.got("loop")
        if way == "dropped":
            device_clock.drop()
        device_clock.part(token, 0)
        device.capture = get_ident() if way == "captured at its end" else 0
        device_clock.end("loop")
        device.capture = 0
    assert state.pending == []
    assert (device.created, device.freed) == (pytest.approx(3, abs=1), 0)


def test_a_device_that_refuses_is_left_alone_and_why_is_written(device: Pretend, tmp_path: Path) -> None:
    def refuse() -> int:
        raise RuntimeError("events cannot be timed here")

    device.mark = refuse  # type: ignore[method-assign]
    step(device, 0, 100)
    assert state.accelerator is None
    (log,) = read_logs(tmp_path)
    assert "events cannot be timed here" in str(first(log, "device_silent"))


def pretended(initialised: bool = True, kind: str | None = "cuda", **module: Any) -> Any:
    """A torch that was built for a kind of device; Nothing is in use but what the module says."""
    current = None if kind is None else SimpleNamespace(type=kind)
    found = Torch(Driver(), accelerator=SimpleNamespace(current_accelerator=lambda: current), _C=None)
    vars(found.module).update(is_initialized=lambda: initialised, **module)
    return found


@pytest.mark.parametrize(
    ("torch", "parameters", "chosen"),
    [
        (pretended(kind=None), None, None),  # built for the CPU
        (pretended(initialised=False), None, None),
        (pretended(), SimpleNamespace(type="cuda", index=3), 3),
        (pretended(), SimpleNamespace(type="cpu", index=None), 0),  # the current one
        (pretended(), None, 0),
    ],
)
def test_the_device_is_that_of_the_parameters_or_the_current_one(
    torch: Any, parameters: Any, chosen: int | None
) -> None:
    found = device_clock.find_accelerator(torch, parameters)
    assert (None if found is None else found.index) == chosen


@pytest.mark.parametrize(
    ("in_use", "chosen"), [({0, 1}, 0), ({1}, 1), ({1, 2}, None), (set(), None)], ids=str
)
def test_no_context_is_made_on_a_device_that_the_script_does_not_use(
    in_use: set[int], chosen: int | None
) -> None:
    """Recording an event on an idle device makes a context there, half a gigabyte for each rank."""
    torch = pretended(device_count=lambda: 3)
    torch._C = SimpleNamespace(_cuda_hasPrimaryContext=lambda index: index in in_use)
    found = device_clock.find_accelerator(torch)
    assert (None if found is None else found.index) == chosen
    named = device_clock.find_accelerator(torch, SimpleNamespace(type="cuda", index=2))
    assert (named is not None) == (2 in in_use)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_while_a_graph_is_captured_nothing_is_marked_or_asked(
    elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another thread, too: in torch's default mode our query would end its capture."""
    monkeypatch.setattr(state, "captures", int(elsewhere), raising=False)
    found = device_clock.find_accelerator(pretended(is_current_stream_capturing=lambda: not elsewhere))
    assert found is not None
    assert not found.ready()


STAYS = "CUPTI would stay attached"


@pytest.mark.parametrize(
    ("cuda", "environ", "why"),
    [
        ("12.8", {}, ""),
        (None, {}, ""),  # ROCm
        ("12.8", {"TEARDOWN_CUPTI": "1"}, ""),
        ("12.8", {"TEARDOWN_CUPTI": "0"}, STAYS),  # as torch sets it where letting go could crash
        ("12.4", {}, STAYS),
        ("odd", {}, STAYS),
        ("12.4", {"BDOC_KEEP_TRACE": "1"}, ""),
        # Kernels have one subscriber; a second one ends the first.
        ("12.8", {"CUDA_INJECTION64_PATH": "1"}, "CUDA_INJECTION64_PATH"),
        ("12.8", {"NSYS_PROFILING_SESSION_ID": "1"}, "NSYS_PROFILING_SESSION_ID"),
    ],
)
def test_where_a_device_is_not_traced(
    cuda: str | None, environ: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pretended()
    torch._C = SimpleNamespace(_autograd=SimpleNamespace(_supported_activities=lambda: {"Activity.CUDA"}))
    torch.autograd = SimpleNamespace(_profiler_enabled=lambda: False)
    torch.version = SimpleNamespace(cuda=cuda)
    monkeypatch.setattr(state, "graphs", False, raising=False)
    monkeypatch.setattr(state, "profiled", False, raising=False)
    monkeypatch.setattr(trace_window, "_severity", lambda torch: object())
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    refusal = trace_window.refusal(torch, "cuda")
    assert why in refusal
    assert bool(why) is bool(refusal)


@pytest.mark.usefixtures("device")
def test_a_profiler_that_could_not_begin_is_not_taken_to_be_on() -> None:
    def refuses() -> None:
        raise RuntimeError

    state.profiled = False
    with pytest.raises(RuntimeError):
        profiler._noting(True)(refuses)()
    assert state.profiled is False


class Graph:
    """What torch.cuda.CUDAGraph offers here."""

    def capture_begin(self, pool: object = None) -> object:
        if pool == "refused":
            raise RuntimeError(pool)
        return pool

    def capture_end(self) -> None:
        pass


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["CUDAGraph", "XPUGraph", "Graph"])
def test_a_capture_is_known_from_its_begin_to_its_end(name: str) -> None:
    graph = type(name, (Graph,), dict(vars(Graph)))
    compiler.patch_graphs(SimpleNamespace(**{name: graph}))
    with pytest.raises(RuntimeError):
        graph().capture_begin("refused")
    assert state.captures == 0
    assert graph().capture_begin(pool=3) == 3
    assert (state.captures, state.graphs) == (1, True)
    graph().capture_end()
    assert state.captures == 0


def test_what_a_process_computes_on_is_known_without_an_optimizer(monkeypatch: Any) -> None:
    def kind(hip: Any = None, current: str | None = None, allocates: bool = True) -> str:
        torch = pretended(kind=current)
        torch.version, torch.cuda = SimpleNamespace(cuda=None, hip=hip), torch.module
        torch._C = SimpleNamespace(_accelerator_isAllocatorInitialized=lambda: allocates)
        return _computes_on(torch)

    assert [kind(), kind("6.4"), kind(None, "mps"), kind(None, "mps", False)] == ["cpu", "cuda", "mps", "cpu"]
    monkeypatch.setitem(sys.modules, "torch_xla", object())
    assert kind() == "xla"
