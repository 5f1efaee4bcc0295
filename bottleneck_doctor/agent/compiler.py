"""Keeps out of compiled graphs and captured ones, and counts what torch.compile does."""

from __future__ import annotations

import os
import sys
from time import monotonic_ns as now

from . import wire
from .guard import quiet, replace_each, undo
from .hints import Any, Callable
from .state import state

_last = (0, 0)  # frames that were compiled, and CUDA graphs that were recorded, at the last row
NOTES_AT_MOST = 128  # facts of one process
_notes = [0]
_seen: dict[int, int] = {}  # how much of each of Dynamo's lists was read; by id: Dynamo keeps the lists' keys


def compiling() -> bool:
    """Whether torch.compile has compiled anything: then hooks must not come and go."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and dynamo.counters.get("frames"))


@quiet
def note() -> None:
    """At a sampled step: write a row if torch.compile has compiled, or recorded, since the previous one."""
    global _last
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return
    total = (dynamo.counters.get("frames") or {}).get("total", 0)
    if not total or _last == (total, state.recorded):
        return
    _last = total, state.recorded
    breaks = sum((dynamo.counters.get("graph_break") or {}).values())
    seconds = sum(dynamo.compilation_time_metrics.get("_compile.compile_inner") or [0.0])
    state.row(
        wire.COMPILED, now(), 0, total, breaks, int(seconds * 1e9), state.recorded, thread=state.thread()
    )
    _note_reasons(dynamo)


@quiet
def _note_reasons(dynamo: Any) -> None:
    """What Dynamo says of its newest graph breaks and recompilations, and where the code is."""
    for one in _unread(0, dynamo.graph_break_reasons):
        stack = [(call.filename, call.lineno, call.name) for call in reversed(one.user_stack)]
        _note_reason("graph break", one.reason, stack)
    for code, reasons in list(dynamo.guard_failures.items()):
        for reason in _unread(id(code), reasons):
            _note_reason("recompilation", reason, [(code.co_filename, code.co_firstlineno, code.co_name)])


def _unread(name: int, reasons: list[Any]) -> list[Any]:
    first = min(_seen.get(name, 0), len(reasons))  # torch._dynamo.reset empties them
    _seen[name] = len(reasons)
    return reasons[first:]


def _note_reason(what: str, reason: object, calls: list[tuple[str, int, str]]) -> None:
    """Its first line: below it, torch explains, with values of the script's."""
    _notes[0] += 1
    if _notes[0] <= NOTES_AT_MOST:
        text = str(reason).strip().partition("\n")[0][:200]
        state.writer.fact(fact="compiler", what=what, reason=text, chain=calls[:12])


starting: list[Callable[[], object]] = []  # called before a graph is traced


@quiet
def watch(module: Any = None) -> None:
    """Register to be called before each graph is traced, again after the reset of torch._dynamo.callback."""
    module = module or sys.modules.get("torch._dynamo.callback")
    if module is not None and _starts not in module.callback_handler.start_callbacks:
        module.callback_handler.register_start_callback(_starts)
        undo.append(lambda: module.callback_handler.remove_start_callback(_starts))


@quiet
def _starts(*_: object) -> None:
    for call in starting:
        call()


def patch_rules(module: Any) -> None:
    """``module`` is torch._dynamo.trace_rules: have it skip our files, all but this one."""
    folder, this = os.path.split(os.path.abspath(__file__))
    ours = [name for name in os.listdir(folder) if name.endswith(".py") and name != this]
    skipped = [os.path.join(folder, name) for name in (*ours, "trial")]
    module.SKIP_DIRS.extend(skipped)
    module._recompile_re()

    def back() -> None:
        for name in skipped:
            module.SKIP_DIRS.remove(name)
        module._recompile_re()

    undo.append(back)


tracing: Callable[[], bool] = bool  # False until torch is there
context: Callable[[], Any] = bool  # None but in a tracer; AOTAutograd's is no "compiling" up to torch 2.11


def know(torch: Any) -> None:
    """torch is imported: from now on it can be checked whether a graph is being traced."""
    global tracing, context
    tracing = torch.compiler.is_compiling
    context = torch._guards.TracingContext.try_get


def unless_traced(hook: Callable[..., None]) -> Callable[..., None]:
    """The hook, and nothing while a graph is traced: this much the tracer may read, and folds away."""

    def untraced(*args: Any) -> None:
        if not tracing():
            hook(*args)

    return untraced


def outside_of_graphs(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``build`` for what compilers trace into: while they do, they see the original."""

    def both(original: Callable[..., Any]) -> Callable[..., Any]:
        ours = build(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if tracing() else ours(*args, **kwargs)

        return call

    return both


SAFE_FROM = (12, 6)  # CUDA; torch.profiler itself keeps CUPTI loaded below it where there are graphs
GRAPHS = ("CUDAGraph", "XPUGraph", "Graph")  # torch's classes; the last is torch.accelerator's


def patch_graphs(module: Any) -> None:
    """``module`` is torch.cuda.graphs, or the like of it; all that captures in Python calls these methods."""
    replace_each(module, tuple(name + ".capture_begin" for name in GRAPHS), _begins)
    replace_each(module, tuple(name + ".capture_end" for name in GRAPHS), _ends)


def _begins(original: Callable[..., Any]) -> Callable[..., Any]:
    def capture_begin(*args: Any, **kwargs: Any) -> Any:
        state.graphs = True
        state.captures += 1
        state.recorded += 1
        try:
            return original(*args, **kwargs)
        except BaseException:
            state.captures -= 1
            raise

    return capture_begin


def _ends(original: Callable[..., Any]) -> Callable[..., Any]:
    def capture_end(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            state.captures = max(0, state.captures - 1)

    return capture_end


def can_detach(cuda: str | None) -> bool:
    """Whether CUPTI can be taken out of this process again; ``cuda`` is torch.version.cuda."""
    try:
        return cuda is None or tuple(int(part) for part in cuda.split(".")[:2]) >= SAFE_FROM
    except ValueError:
        return False
