"""The simulated device's half of a trace, in kineto's names, beside the host's half by torch itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns as now
from typing import Any

from tests.simulated.device import Device, Work

CLOCKS = "simulated: both clocks "  # ranges whose instants are known on either clock
TRIES = 5  # the shortest one counts: whoever loses its core in between knows nothing
COPIES = {"copy": "Memcpy HtoD (Pageable -> Device)", "read": "Memcpy DtoH (Device -> Pageable)"}


def traced(kineto: Any, device: Device) -> type:
    """``kineto.Trace`` (agent/trace_window.py) of a torch that knows the simulated device."""

    class Traced(kineto.Trace):  # type: ignore[misc]
        def prepare(self) -> None:
            self.prepared = now()
            super().prepare()

        def begin(self) -> None:
            super().begin()
            self.began = now()
            self.known = min(self._both_clocks(number) for number in range(TRIES))

        def end(self, path: str, detach: bool) -> None:
            super().end(path, detach)
            if path:
                complete(Path(path), device, self.began, *self.known[1:])
            device.disturbed.append((self.prepared, now()))

        def _both_clocks(self, number: int) -> tuple[int, int, str]:
            name, before = f"{CLOCKS}{number}", now()
            with self.range(name):
                return now() - before, before, name

    return Traced


def complete(path: Path, device: Device, began: int, known: int, name: str) -> None:
    """Add what the device did since a ``known`` instant, where a range of that name begins in the trace."""
    trace = json.loads(path.read_text())
    (clocks,) = (one for one in trace["traceEvents"] if one.get("name") == name)
    events = _Events(clocks["pid"], clocks["tid"], clocks["ts"] - known / 1e3)
    trace["traceEvents"] += events.of(device, began)
    path.write_text(json.dumps(trace))


class _Events:
    """Makes events of one thread and one device; ``offset`` leads to the trace's microseconds."""

    def __init__(self, pid: Any, tid: Any, offset: float) -> None:
        self.pid, self.tid, self.offset = pid, tid, offset

    def of(self, device: Device, began: int) -> Iterator[dict[str, Any]]:
        """All that was issued since an instant, and all calls."""
        issued, correlation = (0, ""), 0
        for number, work in enumerate(device.work, 1):
            if work.called < began:
                continue
            if (work.called, work.name) != issued:
                issued, correlation = (work.called, work.name), number
                name = _name(work, device.work[number : number + 1])
                yield self._call(name, work.called, work.returned, number)
            yield self._work(work, correlation)  # one call may launch many
        for call in device.calls:
            if call.begin >= began:
                yield self._call(call.name, call.begin, call.end, 0)

    def _call(self, name: str, begin: int, end: int, correlation: int) -> dict[str, Any]:
        args = {"External id": 0, "cbid": 0, "correlation": correlation}
        return self._event("cuda_runtime", name, begin, end, self.pid, self.tid) | {"args": args}

    def _work(self, work: Work, correlation: int) -> dict[str, Any]:
        kernel = work.kind == "kernel"
        args: dict[str, Any] = {"device": 0, "stream": work.stream, "correlation": correlation}
        args |= {"blocks per SM": 4.0, "warps per SM": 32.0} if kernel else {"bytes": work.nbytes}
        name, category = (work.name, "kernel") if kernel else (COPIES[work.kind], "gpu_memcpy")
        return self._event(category, name, work.begin, work.end, 0, work.stream) | {"args": args}

    def _event(self, category: str, name: str, begin: int, end: int, pid: Any, tid: Any) -> dict[str, Any]:
        times = {"ts": begin / 1e3 + self.offset, "dur": (end - begin) / 1e3}
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times}


def _name(work: Work, following: list[Work]) -> str:
    if work.kind != "kernel":
        return "cudaMemcpyAsync"
    graph = any(one.called == work.called for one in following)
    return "cudaGraphLaunch" if graph else "cudaLaunchKernel"
