"""Notes the first losses of a trial, and checksums of the batches that its training loop was given.

A loss is what ``backward`` is called on. Numbers on a device are copied there and read together, ever more
rarely (after 1, 2, 4, 8 ... passes), so that few steps wait for it. The hooks lie on top of those that
measure, and come off when enough is noted: the steps after that cost nothing.
"""

from __future__ import annotations

import functools
import sys
from itertools import islice
from zlib import crc32

from .. import stop
from ..batch_contents import leaves, read_part
from ..guard import quiet
from ..hints import Any, Callable, Table
from ..state import state
from .hook_points import AUTOGRAD, LOADER, opened, wrap

PASSES_AT_MOST = 192  # noted, of a step that takes several: closures, two models, a penalty on gradients
MARGIN = 16  # batches more than losses: a loop may be given some ahead
LOOKED_AT_MOST = 4  # times as many batches, and backward passes, until the hooks come off in any case


class _Notes:
    """What one process has noted; ``arrived`` are (loader, checksum), ``trained`` the loaders whose batch
    came last before a backward pass."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.losses: list[Any] = []  # numbers, or tensors on a device that are yet to be read
        self.arrived: list[tuple[int, int]] = []
        self.trained: set[int] = set()
        self.last: int | None = None  # the loader that gave the last batch
        self.passes = self.steps = self.given = self.written = 0
        self.over = False
        self.hooks: list[tuple[Any, str, Any, Any]] = []  # owner, name, hook, what is below

    def put_on(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        below = getattr(owner, name)
        wrap(owner, name, around)
        self.hooks.append((owner, name, getattr(owner, name), below))

    def enough(self) -> bool:
        """Whether all that was wanted is there, or will not come."""
        if self.steps < self.wanted and self.passes < PASSES_AT_MOST:
            return False
        wanted = self.wanted + MARGIN
        given = sum(loader in self.trained for loader, _ in self.arrived)
        most = LOOKED_AT_MOST * wanted
        too_many = len(self.arrived) >= most or self.passes >= PASSES_AT_MOST + most
        return not self.arrived or given >= wanted or too_many

    def welcomes(self, loader: int) -> bool:
        """Whether to note another batch of that loader."""
        wanted, found = self.wanted + MARGIN, [number for number, _ in self.arrived]
        return len(found) < LOOKED_AT_MOST * wanted and found.count(loader) < wanted

    def take_off(self) -> None:
        """Take off the hooks of this file."""
        self.over = True
        for owner, name, hook, below in self.hooks:
            if getattr(owner, name) is hook:  # another wrapper stays where it is, and this hook in it
                setattr(owner, name, below)


def watchers(wanted: int) -> Table:
    """The losses of ``wanted`` steps: all passes on so many batches, or so many where no loader gives any;
    and some batches more."""
    notes = _Notes(wanted)
    stop.before.append(functools.partial(_tell, notes))

    def backward(below: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not notes.over:
            _note_loss(notes, args[0] if args else kwargs.get("tensors"))
        return below(*args, **kwargs)

    def __next__(below: Callable[..., Any], self: Any) -> Any:
        batch = below(self)
        if not notes.over:
            _note_batch(notes, self, batch)
        return batch

    return {
        AUTOGRAD: lambda module: notes.put_on(module, "backward", backward),
        LOADER: lambda module: notes.put_on(module._BaseDataLoaderIter, "__next__", __next__),
    }


@quiet
def _note_loss(notes: _Notes, tensors: Any) -> None:
    loss = tensors if hasattr(tensors, "grad_fn") else tensors[0]
    torch: Any = sys.modules["torch"]
    if loss.numel() != 1 or torch._C._current_graph_task_id() != -1:  # a pass inside a pass
        return
    notes.passes += 1
    notes.steps += notes.given > 0 or notes.last is None
    notes.given = 0
    if notes.steps <= notes.wanted and notes.passes <= PASSES_AT_MOST:
        _keep(notes, loss, torch)
    if notes.last is not None:
        notes.trained.add(notes.last)
    _go_on(notes, tell=notes.steps == notes.wanted or not notes.passes & (notes.passes - 1))


def _keep(notes: _Notes, loss: Any, torch: Any) -> None:
    if loss.device.type == "cpu":
        notes.losses.append(loss.item())
    elif not torch.cuda.is_current_stream_capturing():
        notes.losses.append(loss.detach().clone())


@quiet
def _note_batch(notes: _Notes, iterator: Any, batch: Any) -> None:
    loader = iterator._bdoc.loader if "_bdoc" in iterator.__dict__ else 0
    if notes.welcomes(loader):
        notes.arrived.append((loader, quiet(checksum)(batch) or 0))
    notes.last = loader
    notes.given += 1
    _go_on(notes)


def _go_on(notes: _Notes, tell: bool = False) -> None:
    over = notes.enough()
    if over:
        notes.take_off()
    if over or tell:
        _tell(notes)


@quiet
def _tell(notes: _Notes) -> None:
    """Write down what came since the last time; here a device is waited for."""
    values, notes.losses = notes.losses, []
    if values:
        numbers = [float(value) for value in values]
        state.writer.fact(fact="losses", values=[number.hex() for number in numbers])
    if notes.trained:
        since, notes.written = notes.arrived[notes.written :], len(notes.arrived)
        found = [number for loader, number in since if loader in notes.trained]
        if found:
            state.writer.fact(fact="batches", checksums=found)


LEAVES_AT_MOST = 1024


def checksum(batch: Any) -> int:
    """The same for the same contents, in this process and in any other; 0 where nothing could be read.

    The lower 32 bits are of everything, the 20 above of whole numbers alone, as labels are: so that samples
    which come with other random numbers in them are still known.
    """
    total = whole = 0
    for leaf in islice(leaves(opened(batch)), LEAVES_AT_MOST):
        part, _ = read_part(leaf) or (b"", 0)
        total = crc32(part, total)
        # A single Python number is not counted as whole: it may be a position.
        kind = str(getattr(leaf, "dtype", "")).removeprefix("torch.")
        whole = crc32(part, whole) if kind.startswith(("int", "uint")) else whole
    return (whole & 0xFFFFF) << 32 | total
