"""``python -m tests.gpu.first``: the first ten minutes on a GPU: is what bdoc assumes true, does it do harm?

Each line says what is expected and what was found; where these differ, what it means. See README.md.
"""

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
SLOWER = 1.03  # later steps under bdoc, over what they are without it
# Frees an event after an error that the device keeps, then in a forked child: its exit status tells.
FREED = """
import os, torch
event = torch.cuda.Event(enable_timing=True); event.record(); torch.cuda.synchronize()
if {forks} and os.fork(): raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]) & 255)
try: {forks} or torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")].sum().item()
except Exception: pass
del event
os._exit(0)
"""


@dataclass(frozen=True)
class Line:
    """An answer; ``right`` None: it is good to know, and nothing is wrong either way."""

    name: str
    right: bool | None
    expected: str
    found: str
    means: str = ""


def assumptions(folder: Path) -> Iterator[Line]:
    """All that is asked in one process; what it did not come to has failed."""
    done = execute([sys.executable, "-m", "tests.gpu.assumed"], PYTHONPATH=ours_first())
    answers = {name: (right, found) for name, right, found in map(json.loads, done.stdout.splitlines())}
    ended = f"no answer: the process ended with {done.returncode}: {done.stderr[-200:].strip()}"
    for one in QUESTIONS:
        right, found = answers.get(one.name, (False, ended))
        yield Line(one.name, right, one.expected, found, one.means)


def freed(forks: bool, folder: Path) -> Iterator[Line]:
    """What happens to those who free an event at the wrong time: bdoc frees none."""
    done = execute([sys.executable, "-c", FREED.format(forks=forks)])
    name = f"an event freed {'in a forked child' if forks else 'after a device-side assert'}"
    found = f"status {done.returncode}{', terminate called' if 'terminate' in done.stderr else ''}"
    yield Line(name, None, "an abort, or a warning: bdoc frees none", found)


def compared(way: str, steps: int, folder: Path) -> Iterator[Line]:
    """The same training alone and under bdoc."""
    profile = folder / "profile.json"
    profile.unlink(missing_ok=True)
    script = [str(WAYS), way, "--steps", str(steps)]
    alone = execute([sys.executable, *script], PYTHONPATH=ours_first())
    run = [*BDOC, "run", "--quiet", "-o", str(profile), *script]
    under_bdoc = execute(run, PYTHONPATH=ours_first())
    yield same(way, alone, under_bdoc)
    if way == "after":
        yield not_slower(alone.stderr, under_bdoc.stderr)
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


def not_slower(alone: str, under_bdoc: str) -> Line:
    """Steps after the profiler's window, over those before; alone, over the same seconds."""
    word = "later steps over earlier ones"
    ratios = [
        float(line.split()[-1]) for text in (alone, under_bdoc) for line in text.splitlines() if word in line
    ]
    right = len(ratios) == 2 and ratios[1] <= SLOWER * ratios[0]
    found = (
        "×%.3f alone, ×%.3f under bdoc" % tuple(ratios) if len(ratios) == 2 else f"{len(ratios)} of 2 ratios"
    )
    return Line(
        "after: pace",
        right,
        f"×{SLOWER} at most",
        found,
        "the profiler stays attached: see 'after a profiler window'",
    )


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
    "freed": partial(freed, False),
    "freed-in-a-fork": partial(freed, True),
    "sticky": partial(compared, "sticky", 400),
    "forks": partial(compared, "forks", 3000),
    "capture": partial(compared, "capture", 3000),
    "side-stream": partial(compared, "side-stream", 3000),
    "after": partial(compared, "after", 9000),
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
                    wrong += line.right is False
            except Exception as error:
                print(f"FAILED  {item}: {type(error).__name__}: {error}", flush=True)
                wrong += 1
    print(f"{wrong} not as expected")
    return int(wrong > 0)


def shown(line: Line) -> list[str]:
    """For a terminal."""
    word = {True: "ok", False: "FAILED", None: "note"}[line.right]
    text = [f"{word:<7} {line.name}: {line.found}"]
    if line.right is False:
        text += [f"        expected: {line.expected}", f"        means: {line.means}"]
    return text


if __name__ == "__main__":
    raise SystemExit(main())
