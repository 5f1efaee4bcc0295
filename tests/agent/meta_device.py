"""A pretended accelerator whose tensors are torch's meta tensors: hooks run through torch's own methods."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bottleneck_doctor.agent import device_calls, device_clock, hooks, tensor_hooks
from bottleneck_doctor.agent.state import state
from bottleneck_doctor.assemble.rows import read_logs
from tests.house.source import ROOT
from tests.simulated import torch_api
from tests.simulated.torch_api import Driver

LOOP = "loop"

# The same for a script in a process of its own, which adopts one.
IN_SCRIPT = f"""
sys.path.append({str(ROOT)!r})
from tests.simulated import torch_api
"""


@contextmanager
def in_use(folder: Path) -> Iterator[Driver]:
    """The device was found in this process, and hooks are due at the next look."""
    before = dict(state.__dict__)
    state.begin(str(folder))
    device = Driver()
    state.accelerator = torch_api.in_use(device, device_clock)
    state.clock_ns = -(10**12)  # on a busy machine a single look may cost the whole budget
    vars(tensor_hooks.patches).update(vars(tensor_hooks.TensorHooks()), next=0)
    device_calls.patch(torch)
    hooks.before_search.append(tensor_hooks.hush)
    try:
        yield device
    finally:
        device_clock.drop()
        hooks.before_search.remove(tensor_hooks.hush)
        tensor_hooks._forget()
        vars(tensor_hooks.patches).update(vars(tensor_hooks.TensorHooks()))
        state.__dict__.clear()
        state.__dict__.update(before)


@contextmanager
def look() -> Iterator[Any]:
    """One looked-at step; its rows are there when it is over."""
    device_clock.ask(LOOP, 1)
    device_clock.got(LOOP)
    current = state.look
    try:
        yield current
    finally:
        device_clock.end(LOOP)
        device_clock._read_back()


def rows_of(folder: Path, kind: int) -> list[Any]:
    """All rows of the process of that kind."""
    return [row for log in read_logs(folder) for row in log.rows if row.kind == kind]


def sites_of(folder: Path) -> dict[int, dict[str, Any]]:
    """What the agent wrote about the lines."""
    (log,) = read_logs(folder)
    return {fact["site"]: fact for fact in log.facts if fact["fact"] == "site"}
