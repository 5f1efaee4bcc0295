"""The entry of a finding, what findings may need, and all findings and remedies with their pages."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from textwrap import dedent, indent
from types import ModuleType
from typing import TypeVar

from ..analyse.loop_cpu import anatomy_of
from ..model.diagnosis import Diagnosis, Finding, Proposal
from ..model.report import Abstention

Known = TypeVar("Known")
Need = Callable[[Diagnosis], "str | None"]  # what a run lacks, None if nothing
Examine = Callable[[Diagnosis], "Finding | str | None"]  # a text says what a run lacks, as a need does
LOOP = "a training loop over a loader"
DEVICE_CLOCK = "the accelerator's own clock in a steady training loop"
WINDOW = "a profiler's window of the accelerator's kernels"
DEVICES = ("CPU", "CUDA", "ROCm", "XPU", "others")  # others: MPS, TPU and all that torch cannot time


@dataclass(frozen=True)
class Reach:
    """The ``DEVICES`` on which a finding can speak, and why it cannot on the others."""

    devices: tuple[str, ...]
    why: str = ""


EVERYWHERE = Reach(DEVICES)
READ = Reach(("CUDA", "ROCm"), "it is about a GPU, and only drivers of NVIDIA and AMD are asked")


@dataclass(frozen=True)
class Entry:
    """One finding. ``cause`` is the contract's cause that it belongs to; ``remedies`` are all that it may
    propose, without factors, changes, places and numbers in snippets, which depend on the run. Findings about
    the ``device`` do not even abstain on a run without an accelerator."""

    cause: str
    examine: Examine
    device: bool = False
    needs: tuple[Need, ...] = ()
    remedies: tuple[Proposal, ...] = ()
    narrower: Reach | None = None

    @property
    def reach(self) -> Reach:
        """Where it can speak: by what it declares of itself, or by what it needs."""
        on_cpu = [Reach(("CPU",), one.why) for one in self.needs if isinstance(one, OnCpu)]
        found = on_cpu + [REACHES[one] for one in self.needs if one in REACHES]
        return self.narrower or next(iter(found), READ if self.device else EVERYWHERE)

    @property
    def id(self) -> str:
        """The finding's id in reports and commands, from the name of its function."""
        return self.examine.__name__.replace("_", "-")

    def ask(self, diagnosis: Diagnosis) -> Finding | Abstention | None:
        """Evaluate the finding; an abstention if the run lacks something it needs."""
        if self.device and diagnosis.device is None:
            return None
        missing = next((lack for need in self.needs if (lack := need(diagnosis))), None)
        outcome = missing or self.examine(diagnosis)
        return Abstention(self.id, outcome) if isinstance(outcome, str) else outcome


def finding(
    cause: str,
    *remedies: Proposal,
    needs: tuple[Need, ...] = (),
    device: bool = False,
    reach: Reach | None = None,
) -> Callable[[Examine], Entry]:
    """Declares that a function examines runs for a finding, which then stands under the function's name.
    ``reach`` is where it can speak, if that is less than its needs say."""
    return lambda examine: Entry(cause, examine, device, needs, remedies, reach)


def given(value: Known | None) -> Known:
    """The value, which the finding's needs guarantee to be there."""
    assert value is not None, "declare it in the finding's needs"
    return value


def steady_steps(diagnosis: Diagnosis) -> str | None:
    """``scenario``: what a steady step costs."""
    return "steps of a training loop" if diagnosis.scenario is None else None


def loader_loop(diagnosis: Diagnosis) -> str | None:
    """``loop`` and ``scenario``: steady steps of a loop that was seen to take its batches from a loader."""
    return LOOP if diagnosis.loop is None or diagnosis.scenario is None else None


def timed_fetches(diagnosis: Diagnosis) -> str | None:
    """``scenario``, ``loader`` and timed fetches: nothing is known without them of how batches are made."""
    if diagnosis.scenario is None or diagnosis.loader is None or not diagnosis.inputs.batches:
        return "timed fetches of the loader that feeds the training loop"
    return None


def dataloader_loop(diagnosis: Diagnosis) -> str | None:
    """``loop``, and what ``timed_fetches`` asks for: a loop that takes its batches from a loader itself."""
    return "a training loop over a DataLoader" if diagnosis.loop is None else timed_fetches(diagnosis)


@dataclass(frozen=True)
class OnCpu:
    """A need: ``loop`` and ``scenario`` of a training that computes on the CPU, and its operators in a
    profiled step if ``profiled``. ``why`` it is of no use on an accelerator."""

    why: str
    profiled: bool = True

    def __call__(self, diagnosis: Diagnosis) -> str | None:
        """What the run lacks."""
        missing = loader_loop(diagnosis)
        if missing is None and diagnosis.host.accelerated:
            return f"a model on the CPU: {self.why}"
        return missing or (_cpu_operators(diagnosis) if self.profiled else None)


def _cpu_operators(diagnosis: Diagnosis) -> str | None:
    if diagnosis.profile.operators and anatomy_of(diagnosis.profile, diagnosis.loop):
        return None
    return "a profiled step (the profiler's window needs some seconds of training)"


def clocked_loop(diagnosis: Diagnosis) -> str | None:
    """``loop`` and ``scenario``; where the model computes on an accelerator, by the accelerator's own clock:
    the host's is off by what is queued."""
    missing, view = loader_loop(diagnosis), diagnosis.device
    timed = view is not None and (view.clock is not None or view.beat is not None)
    return DEVICE_CLOCK if missing is None and diagnosis.host.accelerated and not timed else missing


def profiled_step(diagnosis: Diagnosis) -> str | None:
    """What ``clocked_loop`` asks for, and the operators of a profiled step: of an accelerator, with the time
    of their kernels."""
    missing, view = clocked_loop(diagnosis), diagnosis.device
    if missing is None and diagnosis.host.accelerated:
        known = view is not None and view.facts.kernels and diagnosis.profile.operators
        return device_step(diagnosis) or (None if known else WINDOW)
    return missing or _cpu_operators(diagnosis)


def device_step(diagnosis: Diagnosis) -> str | None:
    """``scenario``, ``device`` and its ``beat``. Only a profiler's window shows whether the device computes,
    waits for work, or waits for something else; neither the driver nor the device's clock does."""
    view = diagnosis.device
    if diagnosis.scenario is None or view is None or (view.clock is None and view.beat is None):
        return DEVICE_CLOCK
    if view.beat is None or view.beat.wall_s <= 0:
        return WINDOW
    return None


# Where the clocks and recordings are that needs ask for.
RECORDED = Reach(DEVICES[:3], "kernels of other devices are not recorded")
REACHES: dict[Need, Reach] = {
    clocked_loop: Reach(DEVICES[:4], "torch has no timed marks for other devices"),
    profiled_step: RECORDED,
    device_step: Reach(DEVICES[1:3], "it is about a GPU, and kernels of other devices are not recorded"),
}


FAMILIES = (
    "cpu_compute decode device_compute device_transfer host_loop "
    "input memory precision ranks sample_code saving_logging storage threads workers"
).split()
HEADING = re.compile(r"^# (.+)\n", re.MULTILINE)


@cache
def families() -> dict[str, ModuleType]:
    """The module of each family, by name."""
    return {name: import_module(f"{__package__}.{name}") for name in FAMILIES}


def entries() -> list[Entry]:
    """All findings, by id."""
    return sorted((one for name in FAMILIES for one in entries_of(name)), key=lambda one: one.id)


def entries_of(family: str) -> list[Entry]:
    """The findings of a family."""
    return [one for one in vars(families()[family]).values() if isinstance(one, Entry)]


@cache
def _sections(family: str) -> dict[str, str]:
    parts = HEADING.split((pkgutil.get_data(f"{__package__}", f"pages/{family}.md") or b"").decode())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def snippet(family: str, name: str) -> str:
    """Lines for a user to write, from the family's file."""
    parts = re.split(r"^## (.+)\n", _sections(family)["snippets"], flags=re.MULTILINE)
    return dedent(dict(zip(parts[1::2], parts[2::2], strict=True))[name]).strip("\n")


def pages() -> dict[str, str]:
    """The page of each finding, by id: its section of the family's file, and its remedies."""
    written = {one: text for name in FAMILIES for one, text in _sections(name).items()}
    return {entry.id: _with_remedies(written[entry.id].strip(), entry) for entry in entries()}


def _with_remedies(text: str, entry: Entry) -> str:
    listed = ""
    for one in entry.remedies:
        snippet = indent(one.fix.snippet.rstrip(), " " * 6)
        listed += f"- `{one.id}`: {one.title}\n\n" + (f"{snippet}\n\n" if snippet else "")
    before, references, after = text.partition("## References\n")
    return f"{before}## Remedies\n{listed}{references}{after}" if entry.remedies else text


@cache
def offered() -> dict[str, dict[str, Proposal]]:
    """Remedy id -> the findings that may propose it, each with the remedy as it declares it; both by name."""
    found: dict[str, dict[str, Proposal]] = {}
    for entry in entries():
        for remedy in entry.remedies:
            found.setdefault(remedy.id, {}).setdefault(entry.id, remedy)
    return dict(sorted(found.items()))
