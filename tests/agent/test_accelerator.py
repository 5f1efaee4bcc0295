"""Which accelerator is meant, and that nothing is asked of it that would wait. torch is pretended here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import accelerator, trace_window
from bottleneck_doctor.agent.state import state


class Event:
    """What torch's events offer; one that would wait is missing, so that using it fails."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.stream: Any = None

    def record(self, stream: Any) -> None:
        self.stream = stream

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Event) -> float:
        return 1.5


def pretended(initialised: bool = True, kind: str | None = "cuda", **module: Any) -> Any:
    """A torch that was built for a kind of device."""
    device = SimpleNamespace(
        is_initialized=lambda: initialised,
        current_device=lambda: 0,
        current_stream=lambda index: SimpleNamespace(stream_id=100 + index),
        Event=Event,
        **module,
    )
    current = None if kind is None else SimpleNamespace(type=kind)
    return SimpleNamespace(
        accelerator=SimpleNamespace(current_accelerator=lambda: current),
        get_device_module=lambda kind: device,
        version=SimpleNamespace(hip=None),
    )


def test_a_torch_for_the_cpu_has_none() -> None:
    assert accelerator.find(pretended(kind=None)) is None


def test_a_device_that_the_script_does_not_use_is_left_alone() -> None:
    assert accelerator.find(pretended(initialised=False)) is None


@pytest.mark.parametrize(
    ("in_use", "chosen"), [({0, 1}, 0), ({1}, 1), ({1, 2}, None), (set(), None)], ids=str
)
def test_no_context_is_made_on_a_device_that_the_script_does_not_use(
    in_use: set[int], chosen: int | None
) -> None:
    """Recording an event on an idle device makes a context there, half a gigabyte for each rank."""
    torch = pretended(device_count=lambda: 3)
    torch._C = SimpleNamespace(_cuda_hasPrimaryContext=lambda index: index in in_use)
    found = accelerator.find(torch)
    assert (None if found is None else found.index) == chosen
    named = accelerator.find(torch, SimpleNamespace(type="cuda", index=2))
    assert (named is not None) == (2 in in_use)


def test_the_parameters_say_which_device_is_meant() -> None:
    found = accelerator.find(pretended(), SimpleNamespace(type="cuda", index=3))
    assert found is not None
    assert found.index == 3
    assert found.mark().stream.stream_id == 103


@pytest.mark.parametrize("device", [None, SimpleNamespace(type="cpu", index=None)])
def test_without_them_it_is_the_current_one(device: Any) -> None:
    found = accelerator.find(pretended(), device)
    assert found is not None
    assert found.index == 0


def test_a_kind_that_cannot_say_whether_it_is_in_use_is_left_alone() -> None:
    torch = pretended(kind="mps")
    del torch.get_device_module("mps").is_initialized
    assert accelerator.find(torch) is None


def test_marks_are_used_again() -> None:
    found = accelerator.find(pretended())
    assert found is not None
    first, last = found.mark(), found.mark()
    assert found.between_ns(first, last) == 1_500_000
    found.release([first, last])
    assert found.mark() in (first, last)


def test_a_stream_whose_graph_is_being_captured_is_not_marked() -> None:
    found = accelerator.find(pretended(is_current_stream_capturing=lambda: True))
    assert found is not None
    assert not found.ready()


@pytest.mark.parametrize("name", ["CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"])
def test_a_device_that_another_tool_traces_is_left_to_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels have one subscriber; a second one ends the first."""
    autograd = SimpleNamespace(_profiler_enabled=lambda: False)
    torch = pretended()
    torch._C = SimpleNamespace(_autograd=SimpleNamespace(_supported_activities=lambda: {"Activity.CUDA"}))
    torch.autograd, torch.version = autograd, SimpleNamespace(cuda="12.8")
    monkeypatch.setattr(state, "graphs", False, raising=False)
    monkeypatch.setattr(trace_window, "_severity", lambda torch: object())
    assert trace_window.refusal(torch, "cuda") == ""
    monkeypatch.setenv(name, "1")
    assert name in trace_window.refusal(torch, "cuda")
