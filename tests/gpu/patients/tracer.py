"""A few steps under torch.profiler, for the truth: kernel seconds, and calls that wait for the device."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from traced import SPAN, summary


class Tracer:
    """One stretch of steps under the profiler."""

    def __init__(self) -> None:
        self._profile: Any = None
        self._span: Any = None

    def begin(self) -> None:
        """From here on; the device is idle when this returns."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=kinds)
        self._profile.start()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._span = torch.profiler.record_function(SPAN)
        self._span.__enter__()

    def end(self, steps: int) -> dict[str, Any]:
        """Up to here; what ran, per step."""
        self._span.__exit__(None, None, None)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._profile.stop()
        with tempfile.TemporaryDirectory(prefix="bdoc-trace-") as folder:
            path = Path(folder) / "trace.json"
            self._profile.export_chrome_trace(str(path))
            events = json.loads(path.read_text(errors="replace"))["traceEvents"]
        return summary(events, steps)
