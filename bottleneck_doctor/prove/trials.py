"""Carries out one trial: a ``bdoc run`` of the training with an order for its agents, bounded."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ..model.codec import encode_order
from ..model.run import Order
from .carry_out import ORDER, PROFILE, Finished, Watch, carried_out
from .keeping import Keeping
from .limits import Limits
from .place import place

ROOM = Path(__file__).resolve().parent.parent.parent

# As `python -m` would start us, without the folder that the user stands in: a `queue.py` there is not ours.
START = "import sys; sys.path = [*filter(None, sys.path), {room!r}]; import runpy; "
START += "runpy.run_module('bottleneck_doctor', run_name='__main__', alter_sys=True)"


@dataclass(frozen=True)
class Target:
    """What is run, as ``bdoc run`` was asked: a script, a module, or a launcher, and the words behind it."""

    script: str | None = None
    module: str | None = None
    launcher: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    python: str | None = None
    data_fn: tuple[str, ...] = ()


def run_trial(
    target: Target,
    order: Order,
    limits: Limits,
    *,
    watch: Watch | None = None,
    keeping: Keeping | None = None,
) -> Finished:
    """Run the target with the order until ``limits.steps`` are trained. ``watch`` is called now and then with
    the seconds since the start; ``keeping`` is that of the command.

    Nothing of the trial is left when this returns, or raises: no process, no shared memory, no folder; and
    files that were there before it are as they were. Raises UsageError where there is no place for its files.
    """
    keeping = keeping or Keeping()
    with place(keeping.put_back) as folder:
        file = folder / ORDER
        file.write_bytes(encode_order(order))
        options = ["--no-profiler", "--no-py-spy", "--trial", str(file), "--max-steps", str(limits.steps)]
        return carried_out(_line(target, folder, options), folder, limits, watch, keeping)


def watch_baseline(
    target: Target, limits: Limits, *, watch: Watch | None = None, keeping: Keeping | None = None
) -> Finished:
    """Run the target with all instruments until its step time is known, ``limits.steps`` at most. Here
    ``limits.seconds`` count from the first batch: how long a start takes is not known yet."""
    keeping = keeping or Keeping()
    with place(keeping.put_back) as folder:
        options = ["--until-steady", "--max-steps", str(limits.steps)]
        whole = replace(limits, seconds=limits.first_batch_s + limits.seconds)
        return carried_out(_line(target, folder, options), folder, whole, watch, keeping)


def _line(target: Target, folder: Path, options: list[str]) -> list[str]:
    """The command line of the run."""
    options = ["--quiet", "--place", str(folder), "-o", str(folder / PROFILE), *options]
    if target.python is not None:
        options += ["--python", target.python]
    for name in target.data_fn:
        options += ["--data-fn", name]
    if target.launcher:
        words = ["--", *target.launcher]
    else:
        words = ["-m", target.module] if target.module is not None else [target.script or "-"]
    return [sys.executable, "-c", START.format(room=str(ROOM)), "run", *options, *words, *target.args]
