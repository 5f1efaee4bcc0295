"""torch's kineto by its raw calls: a trace is begun, ended and saved, waiting for nobody, printing nothing.

``torch.profiler`` would synchronise the device when it ends, and turn the trace into Python objects in the
user's thread, 50 microseconds each. Kineto prints lines to the user's stderr when a trace begins and ends
(``USDT:`` in torch 2.13): its log level, exported by torch's library, is raised meanwhile. The environment
variable for it is left alone: setting one in a process with other threads is not safe.
"""

from __future__ import annotations

import os
import sys

from . import give_way
from .patch_graphs import may_profile
from .types import Any

ACTIVITIES = {"cuda": "CUDA", "xpu": "XPU"}  # kind of accelerator -> kineto's name; ROCm says cuda
SEVERITY = "_ZN9libkineto6Logger14severityLevel_E"  # an atomic int, in torch 2.6 and in 2.13
INJECTED = ("CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_PERFWORKS_DIR")  # of nsys, ncu and their like
SILENT = 99  # above all of kineto's levels, which end with 5


def refusal(torch: Any, kind: str) -> str:
    """Why such a device cannot be traced in this process now; "" if it can."""
    supported = {str(one).rpartition(".")[2] for one in torch._C._autograd._supported_activities()}
    if ACTIVITIES.get(kind) not in supported:
        return "this build of torch cannot trace a device of the kind " + kind
    if torch.autograd._profiler_enabled() or give_way.prepared[0]:
        return "another profiler is on"
    other = next((one for one in os.environ if one in INJECTED or one.startswith("NSYS_")), "")
    if other:
        return "another tool traces the device already (%s is set), and only one can" % other
    if os.environ.get("TEARDOWN_CUPTI") == "1":
        return "TEARDOWN_CUPTI=1, with which profiling can crash CUDA graphs"
    if not may_profile(torch.version.cuda):
        return "the script captures CUDA graphs, which profiling can crash below CUDA 12.6"
    if _severity(torch) is None:
        return "this build of torch hides kineto's log level: a recording would print to the user's stderr"
    return ""


class Trace:
    """One recording: ``prepare`` starts the device's tracing, ``begin`` records, ``end`` stops and saves.
    All three in the same thread. They may raise: the caller drops the trace then."""

    def __init__(self, kind: str) -> None:
        torch: Any = sys.modules["torch"]
        autograd = self._autograd = torch.autograd
        self._host = {autograd.ProfilerActivity.CPU}
        device = getattr(autograd.ProfilerActivity, ACTIVITIES.get(kind, ""), None)
        self._all = self._host | ({device} if device is not None else set())
        self._range = torch._C._profiler._RecordFunctionFast
        self._hear = torch._C._autograd._enable_record_function
        self._settings = torch._C._profiler._ExperimentalConfig
        self._level = _severity(torch)
        self._before: int | None = None
        self._running = False

    def prepare(self) -> None:
        """Load and start what traces the device; the first time in a process takes seconds on some machines.

        Kineto sets its log level when it is first used: an empty recording of the host alone, where nothing
        fails, comes before.
        """
        self._autograd._prepare_profiler(self._config(), self._host)
        self._before, self._level.value = self._level.value, SILENT
        self._autograd._enable_profiler(self._config(), self._host)
        self._autograd._disable_profiler()
        self._autograd._prepare_profiler(self._config(), self._all)

    def begin(self) -> None:
        """Record from now on, operators with the shapes of their arguments."""
        self._autograd._enable_profiler(self._config(), self._all)
        self._running = True

    def mute(self) -> None:
        """Record what the device does, and no more operators of this thread and its backward passes."""
        self._hear(False)

    def end(self, path: str) -> None:
        """Stop, and write the trace in Chrome's format; an empty path drops it."""
        try:
            self._hear(True)
            if self._running:
                self._running = False
                result = self._autograd._disable_profiler()
                if path:
                    result.save(path)
        finally:
            if self._before is not None:
                self._level.value = self._before

    def range(self, name: str) -> Any:
        """A context manager whose stretch of this thread bears that name in the trace."""
        return self._range(name)

    def _config(self) -> Any:
        kind = self._autograd.ProfilerState.KINETO
        return self._autograd.ProfilerConfig(kind, True, False, False, False, False, self._settings())


def _severity(torch: Any) -> Any:
    """Kineto's log level, in place; None in builds that do not export it."""
    import ctypes

    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        return ctypes.c_int.in_dll(ctypes.CDLL(library), SEVERITY)
    except (OSError, ValueError):
        return None
