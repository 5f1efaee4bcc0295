"""``python -m tests.assemble.published [PREFIX=]FILE...``: bdoc's reading of published traces, held against
sums taken here on a grid of instants; the two share the names of what is input, a wait, or the allocator.

Steps begin where ranges do whose names start with the prefix, ``ProfilerStep#`` if none is given. The traces
themselves are not part of this repository.
"""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from bottleneck_doctor.assemble.device_idle import BEHIND_US, INPUT, LONG_US, MEMORY, OTHER, WAITS
from bottleneck_doctor.assemble.trace import TraceTable, read_window, short_name

Event = dict[str, Any]
GRID_US = 0.25
CAUSES = ("input", "launch", "sync", "transfer", "memory", "collective", "other", "unexplained")
NODE = "autograd::engine::evaluate_function"
OLDER = {"operator": "cpu_op", "runtime": "cuda_runtime", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}


def marked(trace: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The trace with the agent's marks where its own steps begin, and at the end of the last."""
    steps = [one for one in _complete(trace, "user_annotation", "cpu_op") if one["name"].startswith(prefix)]
    place = {name: steps[0][name] for name in ("pid", "tid")}
    mark = {"ph": "X", "cat": "user_annotation", "name": "bdoc#step#1", "dur": 0, **place}
    marks = [mark | {"ts": t} for t in (*(one["ts"] for one in steps), _end(steps[-1]))]
    return {**trace, "traceEvents": [*trace["traceEvents"], *marks]}


def _complete(trace: dict[str, Any], *categories: str) -> list[Event]:
    """The complete events of these categories, in order of their begin; torch 1.8 named them otherwise."""
    found = []
    for one in trace["traceEvents"]:
        category = OLDER.get(str(one.get("cat")).lower(), str(one.get("cat")).lower())
        if one.get("ph") == "X" and category in categories:
            given = {name.lower(): value for name, value in one.get("args", {}).items()}
            found.append({**one, "cat": category, "args": given})
    return sorted(found, key=lambda one: (one["ts"], _end(one)))


def _end(one: Event) -> float:
    return float(one["ts"] + one["dur"])


def _computes(one: Event) -> bool:
    return "DtoD" in one["name"] if one["cat"] == "gpu_memcpy" else "nccl" not in one["name"].lower()


class Sums:
    """Microseconds by a trace of whole steps that lie between two of its marks: ``wall``, ``busy``, idle
    ``causes``, ``exchange`` (with other ranks, computing or not), and of ``kernels`` by their operator."""

    def __init__(self, trace: dict[str, Any], steps: int) -> None:
        calls = _complete(trace, "cuda_runtime", "cuda_driver")
        ranges = _complete(trace, "cpu_op", "user_annotation")
        marks = [one for one in ranges if one["name"] == "bdoc#step#1"]
        begin, end = marks[1]["ts"], marks[1 + steps]["ts"]
        self.work = _complete(trace, "kernel", "gpu_memcpy", "gpu_memset")
        self.launched = {one["args"].get("correlation"): one for one in calls}
        threads = {marks[0]["tid"], *(one["tid"] for one in ranges if one["name"].startswith(NODE))}
        self.calls, self.ranges = (
            [one for one in group if one["tid"] in threads] for group in (calls, ranges)
        )
        issued, latest = [], float("-inf")
        for one in self.work:
            latest = self.launched.get(one["args"].get("correlation"), {"ts": latest})["ts"]
            issued.append((one, latest))
        done = [(_end(one), t) for one, t in issued if _computes(one)]
        self.begin, until = (max((last for last, t in done if t < at), default=at) for at in (begin, end))
        self.wall, self.computing = until - self.begin, [one for one in self.work if _computes(one)]
        self.cells = round(self.wall / GRID_US)
        exchanges = self._on([one for one in self.work if "nccl" in one["name"].lower()])
        self.causes = dict.fromkeys((*CAUSES, "own"), 0.0)
        self._share_out(exchanges)
        # Short pauses between kernels that were queued already are the device's own.
        self.busy = float(self._on(self.computing).sum()) * GRID_US + self.causes["own"]
        self.exchange = float(exchanges.sum()) * GRID_US
        names, self.kernels = {one["args"].get("external id"): one["name"] for one in ranges}, Counter[str]()
        for one, t in issued:
            if begin <= t < end and (one["cat"] != "gpu_memcpy" or _computes(one)):
                name = names.get(one["args"].get("external id") or -1, short_name(one["name"]))
                self.kernels[name] += one["dur"]

    def _cell(self, instant: float) -> int:
        return min(max(0, round((instant - self.begin) / GRID_US)), self.cells)

    def _on(self, events: list[Event]) -> Any:
        """The instants at which one of these is under way."""
        found = np.zeros(self.cells + 1, dtype=bool)
        for one in events:
            found[self._cell(one["ts"]) : self._cell(_end(one))] = True
        return found[: self.cells]

    def _take(self, free: Any, cause: str, which: Any) -> None:
        """Charge these instants, as far as they are free."""
        self.causes[cause] += float((free & which).sum()) * GRID_US
        free &= ~which

    def _share_out(self, exchanges: Any) -> None:
        """Of each pause: other ranks, and copies that the next kernel awaits. Where that was queued already,
        the rest is the device's own, if short; else it is what the loop did until the launch, or waited."""
        copies = [one for one in self.work if "HtoD" in one["name"]]
        copied = {one["args"].get("correlation") for one in copies}
        long = [one for one in self.calls if one["dur"] > LONG_US]
        allocating = [one for one in self.calls if MEMORY.search(one["name"])]
        masks = {
            "other": self._on([one for one in self.ranges if one["name"].startswith(OTHER)]),
            "input": self._on([one for one in self.ranges if one["name"].startswith(INPUT)]),
            "memory": self._on(allocating),
            "transfer": self._on([one for one in long if one["args"].get("correlation") in copied]),
        }
        waits = [one for one in self.calls if WAITS.search(one["name"])]
        waits += allocating + [one for one in long if "Memcpy" in one["name"]]
        waits.sort(key=lambda one: -one["ts"])
        last, done = self.begin + self.wall, self.begin
        for following in [*self.computing, {"ts": last, "dur": 0.0, "args": {}}]:
            first, until = done, min(following["ts"], last)
            done = max(done, _end(following))
            if until <= first:
                continue
            call = self.launched.get(following["args"].get("correlation"))
            part = slice(self._cell(first), self._cell(until))
            free = np.ones(part.stop - part.start, dtype=bool)
            self._take(free, "collective", exchanges[part])
            copy = max((one for one in copies if _end(one) <= until), key=_end, default=None)
            if copy and until - _end(copy) <= BEHIND_US and not (call and call["ts"] > _end(copy)):
                beside = [one for one in copies if one["args"]["stream"] == copy["args"]["stream"]]
                self._take(free, "transfer", self._on(beside)[part])
            if call and call["ts"] < first:
                self._take(free, "own" if float(free.sum()) * GRID_US <= LONG_US else "unexplained", free)
                continue
            before = np.arange(part.start, part.stop) < (self._cell(call["ts"]) if call else part.stop)
            for cause, mask in masks.items():
                self._take(free, cause, mask[part] & before)
            late = next((one for one in waits if one["ts"] < first <= _end(one)), None)
            cause = "launch" if late is None else "memory" if MEMORY.search(late["name"]) else "sync"
            self._take(free, cause, free)


def compared(table: TraceTable, trace: dict[str, Any]) -> tuple[Sums, dict[str, float]]:
    """By how much two readings differ: times by the step, the ten slowest operators by their own."""
    window, sums = table.window, Sums(trace, table.window.steps)
    theirs = {"wall": sums.wall, "busy": sums.busy, "communication": sums.exchange, **sums.causes}
    del theirs["own"]
    us = {name: getattr(window, f"{name}_s") * 1e6 * window.steps for name in theirs}
    found = {name: (us[name] - value) / sums.wall for name, value in theirs.items()}
    mine = {one.name: one.self_device_s * 1e6 * window.steps for one in table.operators}
    for name, value in sums.kernels.most_common(10):
        found[name] = mine.get(name, 0.0) / max(value, 1e-9) - 1
    return sums, found


def main(arguments: list[str]) -> None:
    """For each trace its sums, and the largest difference."""
    for argument in arguments:
        prefix, _, file = argument.rpartition("=")
        packed = Path(file).read_bytes()
        text = gzip.decompress(packed) if file.endswith(".gz") else packed
        trace = marked(json.loads(text, strict=False), prefix or "ProfilerStep#")
        if (table := read_window(json.dumps(trace))) is not None:
            sums, found = compared(table, trace)
            parts = {"busy": sums.busy, **sums.causes, "exchange": sums.exchange}
            print(file, table.window, {name: value / sums.wall for name, value in parts.items() if value})
            print("largest difference", max(found.items(), key=lambda one: abs(one[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
