"""``python -m tests.gpu.first``: the first ten minutes on a GPU: is what bdoc assumes true, does it do harm?

Each line says what is expected and what was found; where these differ, what it means. See README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.gpu import library
from tests.gpu.assumed import QUESTIONS
from tests.gpu.run import NO_DEVICE, device
from tests.lab.options import among, tell
from tests.lab.run import BDOC, execute, ours_first

WAYS = Path(__file__).with_name("patients") / "ways.py"


@dataclass(frozen=True)
class Line:
    """An answer, and what it means where it is not right."""

    name: str
    right: bool
    expected: str
    found: str
    means: str


def assumptions(folder: Path) -> Iterator[Line]:
    """All that is asked in one process; what it did not come to has failed."""
    done = execute([sys.executable, "-m", "tests.gpu.assumed"], PYTHONPATH=ours_first())
    answers = {name: (right, found) for name, right, found in map(json.loads, done.stdout.splitlines())}
    ended = f"no answer: the process ended with {done.returncode}: {done.stderr[-200:].strip()}"
    for one in QUESTIONS:
        right, found = answers.get(one.name, (False, ended))
        yield Line(one.name, right, one.expected, found, one.means)


def compared(way: str, steps: int, folder: Path) -> Iterator[Line]:
    """The same training alone and under bdoc."""
    profile = folder / "profile.json"
    profile.unlink(missing_ok=True)
    script = [str(WAYS), way, "--steps", str(steps)]
    alone = execute([sys.executable, *script], PYTHONPATH=ours_first())
    run = [*BDOC, "run", "--quiet", "-o", str(profile), *script]
    under_bdoc = execute(run, PYTHONPATH=ours_first())
    yield same(way, alone, under_bdoc)
    yield measured(way, json.loads(profile.read_text()) if profile.exists() else {})


def same(
    way: str, alone: subprocess.CompletedProcess[str], under_bdoc: subprocess.CompletedProcess[str]
) -> Line:
    """Status, output, and how an error is shown."""
    shown = [
        (one.returncode, one.stdout, one.stderr.count("Traceback"), one.stderr.count("terminate called"))
        for one in (alone, under_bdoc)
    ]
    right = shown[0] == shown[1] and (alone.returncode != 0) == (way == "sticky")
    found = (
        f"the same, status {alone.returncode}"
        if shown[0] == shown[1]
        else f"{shown[0]}; WITH BDOC: {shown[1]}"
    )
    if not right:
        found += f"; {alone.stderr[-200:].strip()}; {under_bdoc.stderr[-200:].strip()}"
    means = (
        "bdoc changes how a failed training ends"
        if way == "sticky"
        else "bdoc changes what is trained: stop here"
    )
    return Line(f"{way}: output and status", right, "the same alone and under bdoc", found, means)


def measured(way: str, profile: dict[str, Any]) -> Line:
    """Whether the device was seen at all; a failed training has no time for a window."""
    known = profile.get("device") or {}
    steps, window = sum((known.get("table") or {}).get("looks", [])), known.get("window")
    right = steps > 5 and not known.get("silent") and (window is not None or way == "sticky")
    why = "; ".join(gap["why"] for gap in profile.get("gaps", []) if gap["what"] == "kernels")
    found = f"{steps} steps, window: {window is not None} {known.get('silent') or ''} {why}".strip()
    return Line(f"{way}: what bdoc saw", right, "more than 5 sampled steps, and a profiler window", found,
                "no verdict about the device: the reason is what was found")  # fmt: skip


Ask = Callable[[Path], Iterator[Line]]
ITEMS: dict[str, Ask] = {
    "assumptions": assumptions,
    "sticky": partial(compared, "sticky", 400),
    "forks": partial(compared, "forks", 3000),
    "capture": partial(compared, "capture", 3000),
    "side-stream": partial(compared, "side-stream", 3000),
    "compiled": partial(compared, "compiled", 3000),
}
some = among({name: (name, ask) for name, ask in ITEMS.items()}, "item")


def main(argv: Sequence[str] | None = None) -> int:
    """Ask; status 1 when anything is not as expected, 2 without a device."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.first", description=__doc__)
    parser.add_argument("--only", type=some, default=list(ITEMS.items()), help="names, separated by commas")
    parser.add_argument("--lib", type=Path, help="a folder of wheels or packages, where pip cannot be used")
    given = parser.parse_args(argv)
    machine = device()
    if machine is None:
        tell("no CUDA device here, or no torch that was built for it: nothing was asked")
        return NO_DEVICE
    print(machine, flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="bdoc-gpu-") as name:
        library.use(given.lib, Path(name))
        for item, ask in given.only:
            try:
                for line in ask(Path(name)):
                    print(*shown(line), sep="\n", flush=True)
                    wrong += not line.right
            except Exception as error:
                print(f"FAILED  {item}: {type(error).__name__}: {error}", flush=True)
                wrong += 1
    print(f"{wrong} not as expected")
    return int(wrong > 0)


def shown(line: Line) -> list[str]:
    """For a terminal."""
    text = [f"{'ok' if line.right else 'FAILED':<7} {line.name}: {line.found}"]
    if not line.right:
        text += [f"        expected: {line.expected}", f"        means: {line.means}"]
    return text


if __name__ == "__main__":
    raise SystemExit(main())
