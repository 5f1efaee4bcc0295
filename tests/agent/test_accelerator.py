"""Which accelerator is meant, and that nothing is asked of it that would wait. torch is pretended here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bottleneck_doctor.agent import accelerator, trace_window
from bottleneck_doctor.agent.state import state
from tests.simulated.torch_api import Driver, Torch


def pretended(initialised: bool = True, kind: str | None = "cuda", **module: Any) -> Any:
    """A torch that was built for a kind of device; Nothing is in use but what the module says."""
    current = None if kind is None else SimpleNamespace(type=kind)
    found = Torch(Driver(), accelerator=SimpleNamespace(current_accelerator=lambda: current))
    vars(found.module).update(is_initialized=lambda: initialised, **module)
    return found


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
    assert found.mark().index == 3


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
    assert found.between_ns(first, last) == last.at - first.at
    found.release([first, last])
    assert found.mark() in (first, last)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_while_a_graph_is_captured_nothing_is_marked_or_asked(
    elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another thread, too: in torch's default mode our query would end its capture."""
    monkeypatch.setattr(state, "captures", int(elsewhere), raising=False)
    found = accelerator.find(pretended(is_current_stream_capturing=lambda: not elsewhere))
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
    monkeypatch.setattr(trace_window, "_severity", lambda torch: object())
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    refusal = trace_window.refusal(torch, "cuda")
    assert why in refusal
    assert bool(why) is bool(refusal)
