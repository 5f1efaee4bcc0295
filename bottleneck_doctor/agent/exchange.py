"""Marks, inside a backward pass of a model shared among ranks, where its own gradients are finished.

What the pass takes after that mark is the exchange: DistributedDataParallel waits in the calling thread for
what its hooks have begun to send. The mark is a callback of the autograd engine, put there by a hook on the
root of the graph, so it stands before the callback that DistributedDataParallel queues when its last gradient
is ready. No communication hook is used: these would change how gradients are sent.
"""

from __future__ import annotations

import sys
import weakref
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .clocks import run_queue
from .guard import quiet
from .pulse import state
from .types import Any

BOOKS_AT = (12, 128, 1024, 8192)  # passes seen after which the model's own books are copied, at most

models: list[weakref.ref[Any]] = []  # every DistributedDataParallel of this process
_passes = [0]


class SampledBackward:
    """One backward pass that is looked at closely."""

    __slots__ = ("begun", "cpu", "handle", "mark", "queue", "shared", "thread")

    def __init__(self, node: Any, shared: bool) -> None:
        self.mark: tuple[int, int, int] | None = None
        self.shared = shared
        self.thread = state.thread()
        self.handle = node.register_prehook(self._root)
        self.cpu, self.queue, self.begun = thread_time_ns(), run_queue(), now()

    def _root(self, gradients: Any) -> None:
        """The pass has begun: have the engine call us before whoever asks for it later."""
        try:
            self.handle.remove()
            sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(self._finished)
        except Exception:
            pass

    def _finished(self) -> None:
        """Every gradient of this rank is there. Another thread's clocks say nothing about ours."""
        if state.thread() == self.thread:
            self.mark = (now(), thread_time_ns(), run_queue())
        else:
            self.mark = (now(), wire.NOTHING, wire.NOTHING)

    @quiet
    def close(self) -> None:
        """The pass is over, or has failed."""
        self.handle.remove()
        if self.mark is None:
            return
        end, cpu, queue = now(), thread_time_ns(), run_queue()
        mark, mark_cpu, mark_queue = self.mark
        known = mark_cpu != wire.NOTHING
        state.row(
            wire.EXCHANGE, mark, end - mark, cpu - mark_cpu if known else wire.NOTHING,
            queue - mark_queue if known else wire.NOTHING, mark - self.begun,
            mark_cpu - self.cpu if known else wire.NOTHING,
            mark_queue - self.queue if known else wire.NOTHING, int(self.shared), self.thread,
        )  # fmt: skip
        if self.shared:
            _passes[0] += 1
            if _passes[0] in BOOKS_AT:
                copy_books()


@quiet
def watch(tensors: Any) -> SampledBackward | None:
    """Watch the backward pass of these tensors; None where nothing may be hung onto its graph."""
    root = tensors if hasattr(tensors, "grad_fn") else tensors[0]
    node = root.grad_fn
    compiled: Any = sys.modules.get("torch._dynamo.compiled_autograd")
    if node is None or getattr(compiled, "compiled_autograd_enabled", False):
        return None
    if (
        sys.modules["torch"]._C._current_graph_task_id() != -1
    ):  # a pass inside a pass belongs to the outer one
        return None
    return SampledBackward(node, _is_shared())


def _is_shared() -> bool:
    """Whether the last forward pass of any model has announced an exchange; ``no_sync`` announces none."""
    found = (model() for model in models)
    return any(getattr(one, "require_forward_param_sync", True) for one in found if one is not None)


@quiet
def copy_books() -> None:
    """What the models themselves know by now: buckets as rebuilt, parameters that went unused."""
    for number, reference in enumerate(models, 1):
        model = reference()
        if model is not None:
            books = model._get_ddp_logging_data()
            kept = {name: books.get(name) for name in KEPT}
            state.book.fact(fact="ddp_books", model=number, **kept)


KEPT = (
    "bucket_sizes rebuilt_bucket_sizes unused_parameter_size comm_hook iteration "
    "avg_backward_comm_time avg_backward_compute_comm_overlap_time"
).split()
