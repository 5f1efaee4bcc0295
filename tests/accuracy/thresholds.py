"""``python -m tests.accuracy.thresholds``: what recorded trainings say about each constant marked "(ours)".

Every recorded profile is diagnosed once while those constants note what they are compared with. A row tells
how many trainings come to a constant, and the nearest values on either side of it: between these two it could
be anything, and no recorded verdict would change at that comparison.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.kept import report_of
from tests.lab.table import line

ROOT = Path(__file__).parents[2]
RECORDED = (ROOT / "tests/golden/accuracy", ROOT / "tests/golden/others")
ROOMS = ("analyse", "assemble", "findings", "prescribe", "model")
MARK = re.compile(r"\(ours\b")
TIGHT = 0.07  # of its value, to the nearest recorded ones
ORDERS, SUMS = ("lt", "le", "gt", "ge"), ("add", "sub", "truediv")
Computed = Callable[[Any, Any], Any]

INTRODUCTION = (
    'Of {all} numbers that no source gives (marked "(ours)" in the code), {reached} are used in '
    "diagnosing the {recordings} recorded trainings; `python -m tests.accuracy.thresholds --write "
    "docs/thresholds.md` writes this page. *Below* and *above* are the nearest values that one was "
    "compared with: between them the number could be any, and no comparison would end otherwise. A "
    "number that is used without a comparison scales an estimate; one that no recording comes to is "
    "held by drawn cases alone, as those of accelerators are. {tight} have one within {share:.0%} on "
    "both sides: there a verdict turns on little."
)


@dataclass
class Constant:
    """A number of the code; ``used_by`` are recordings that compute with it, ``below`` and ``above`` the
    nearest values that one was compared with, and in which recording."""

    module: str
    name: str
    value: float
    used_by: set[str] = field(default_factory=set)
    below: tuple[float, str] | None = None
    above: tuple[float, str] | None = None

    @property
    def is_tight(self) -> bool:
        """Whether recorded values lie close to it on both sides: there a verdict turns on little."""
        near = [
            met is not None and abs(met[0] - self.value) <= TIGHT * self.value
            for met in (self.below, self.above)
        ]
        return all(near)

    def meet(self, value: float, recording: str) -> None:
        """A comparison with that value."""
        if value < self.value and (self.below is None or value > self.below[0]):
            self.below = value, recording
        elif value >= self.value and (self.above is None or value < self.above[0]):
            self.above = value, recording


def constants() -> list[Constant]:
    """Those that are marked, in the order of files and lines; of a tuple each number is one."""
    found = []
    for file in sorted(one for room in ROOMS for one in (ROOT / "bottleneck_doctor" / room).rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for name in _marked(file.read_text()):
            value = getattr(importlib.import_module(module), name)
            parts = value if isinstance(value, tuple) else (value,)
            labels = [f"{name}[{place}]" for place in range(len(parts))] if len(parts) > 1 else [name]
            found += [
                Constant(module, label, part)
                for label, part in zip(labels, parts, strict=True)
                if type(part) in (int, float)
            ]
    return found


def _marked(text: str) -> Iterator[str]:
    """Names that a file's top level gives values, and whose line or comment above says "(ours"."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign) or not MARK.search(_said(lines, node)):
            continue
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (one.id for one in names if isinstance(one, ast.Name))


def _said(lines: list[str], node: ast.Assign) -> str:
    """The comments of an assignment: those above it, and those on its lines."""
    first = node.lineno - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return " ".join(one.partition("#")[2] for one in lines[first : node.end_lineno])


class Watch:
    """Puts numbers that note their use in the constants' place, in every module that took them."""

    def __init__(self, watched: Sequence[Constant]) -> None:
        self.recording = ""
        self.kinds = {kind: self._kind(kind) for kind in (int, float)}
        for constant in watched:
            self._replace(constant)

    def _replace(self, constant: Constant) -> None:
        name, _, place = constant.name.rstrip("]").partition("[")
        before = getattr(sys.modules[constant.module], name)
        noting = self.kinds[type(constant.value)](constant.value)
        noting.constant = constant
        after = (*before[: int(place)], noting, *before[int(place) + 1 :]) if place else noting
        if isinstance(before, tuple) and not place:
            after = (noting,)
        for module in [one for key, one in sys.modules.items() if key.startswith("bottleneck_doctor")]:
            if getattr(module, name, None) is before:
                setattr(module, name, after)

    def _kind(self, base: type) -> type:
        """A number of that type which notes what it meets, and computes as ever."""
        methods = {f"__{name}__": self._noted(getattr(base, f"__{name}__")) for name in ORDERS}
        sums = (f"__{side}{name}__" for name in SUMS for side in ("", "r"))
        methods |= {name: self._used(getattr(base, name)) for name in sums}
        methods |= {name: self._scaled(getattr(base, name)) for name in ("__mul__", "__rmul__")}
        return type("Noting", (base,), {**methods, "times": 1.0})

    def _noted(self, compare: Computed) -> Computed:
        def noted(number: Any, other: Any) -> Any:
            number.constant.used_by.add(self.recording)
            if type(other) in (int, float):
                number.constant.meet(other / number.times, self.recording)
            return compare(number, other)

        return noted

    def _used(self, compute: Computed) -> Computed:
        def used(number: Any, other: Any) -> Any:
            number.constant.used_by.add(self.recording)
            return compute(number, other)

        return used

    def _scaled(self, multiply: Computed) -> Computed:
        """A constant times what it is a share of: what that is compared with is noted too, as a share."""

        def scaled(number: Any, other: Any) -> Any:
            number.constant.used_by.add(self.recording)
            product = multiply(number, other)
            if type(product) is not float or not other > 0:
                return product
            product = self.kinds[float](product)
            product.constant, product.times = number.constant, number.times * other
            return product

        return scaled


def main(argv: Sequence[str] | None = None) -> int:
    """Diagnose all that is recorded and print the table, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.thresholds", description=__doc__)
    parser.add_argument("--write", type=Path, help="the page to write")
    given = parser.parse_args(argv)
    files = sorted(file for folder in RECORDED for file in folder.glob("*.profile.json.gz"))
    report_of(files[0])  # loads what is loaded late
    found = constants()
    watch = Watch(found)
    for file in files:
        watch.recording = file.name.partition(".")[0]
        report_of(file)
    page = "\n".join(told(found, len(files))) + "\n"
    if given.write is None:
        print(page, end="")
    else:
        given.write.write_text(page)
    return 0


def told(found: Sequence[Constant], recordings: int) -> Iterator[str]:
    """The page, line by line."""
    reached = [one for one in found if one.used_by]
    tight = [one for one in reached if one.is_tight]
    yield "# Constants that are ours"
    yield ""
    yield INTRODUCTION.format(
        all=len(found), reached=len(reached), recordings=recordings, tight=len(tight), share=TIGHT
    )
    for module in dict.fromkeys(one.module for one in found):
        yield ""
        yield f"## {module.partition('.')[2].replace('.', '/')}.py"
        yield ""
        yield line(["constant", "value", "trainings", "nearest below", "nearest above"])
        yield line(["---"] * 5)
        for one in found:
            if one.module == module:
                yield line(
                    [
                        f"`{one.name}`",
                        f"{one.value:g}",
                        str(len(one.used_by)),
                        _near(one.below),
                        _near(one.above),
                    ]
                )


def _near(met: tuple[float, str] | None) -> str:
    return f"{met[0]:.3g} ({met[1]})" if met is not None else "–"


if __name__ == "__main__":
    raise SystemExit(main())
