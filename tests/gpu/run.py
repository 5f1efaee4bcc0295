"""``python -m tests.gpu.run``: is bdoc right on this GPU? Patients, their twins, and what watching costs.

Needs Python 3.10, torch 2.6 with CUDA, and this checkout; no network. See README.md in this folder.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.gpu import library, records, sheet
from tests.gpu.expected import FOLDER
from tests.gpu.measure import Ward, output_of
from tests.gpu.rounds import ITEMS, Rounds, go
from tests.gpu.sheet import Sheet
from tests.lab.golden import GOLDEN
from tests.lab.options import among, tell
from tests.lab.patients import DATA
from tests.lab.run import execute

NO_DEVICE = 2
some_items = among({item[0]: item for item in ITEMS}, "item")
ASK = """\
import platform, torch
if not torch.cuda.is_available(): raise SystemExit(1)
print(torch.cuda.get_device_name(), platform.python_version(), torch.__version__, sep="|")
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Go through the items; status 1 when bdoc was wrong, 2 when there is no device."""
    given = _arguments(argv)
    machine = "a rehearsal on the CPU" if given.rehearse else device()
    if machine is None:
        tell("no CUDA device here, or no torch that was built for it: nothing was measured")
        return NO_DEVICE
    keep = GOLDEN / slug(machine) if given.keep else None
    found = Sheet(machine) if keep is None else records.load(keep, machine)
    with tempfile.TemporaryDirectory(prefix="bdoc-gpu-") as name:
        library.use(given.lib, Path(name))
        ward = Ward(Path(name), _scripts_options(given, Path(name)))
        print(sheet.HEADER, flush=True)
        rounds = Rounds(ward, found, tell, given.repeats, given.pairs, given.seconds, keep)
        go(rounds, given.only, given.budget_s)
    print(*sheet.adds_up(found), sep="\n")
    if keep is not None:
        records.save(keep, found)
    if given.write is not None:
        sheet.write(given.write, found)
    return 0 if found.right or (given.rehearse and not found.failed) else 1


def device() -> str | None:
    """The device's name and the versions; asked in another process: this one takes none of its memory."""
    asked = execute([sys.executable, "-c", ASK])
    if asked.returncode:
        return None
    name, python, torch = asked.stdout.strip().splitlines()[-1].split("|")
    return f"{name}, {len(os.sched_getaffinity(0))} cores, Python {python}, torch {torch}"


def slug(machine: str) -> str:
    """The device's name as a folder's."""
    return re.sub(r"[^a-z0-9]+", "-", machine.partition(",")[0].lower()).strip("-")


def _scripts_options(given: argparse.Namespace, folder: Path) -> tuple[str, ...]:
    """What every script is told: where data may lie, the device, and its speed, measured once for all."""
    where = ["--data", str(given.data), "--device", "cpu" if given.rehearse else "cuda"]
    speed = folder / "speed.json"
    tell("measuring the device's speed")
    output_of([sys.executable, str(FOLDER / "speed.py"), *where, "--write", str(speed)])
    tell(", ".join(f"{name} {value:.3g}" for name, value in json.loads(speed.read_text()).items()))
    steps = ["--steps", str(given.steps)] if given.steps else []
    return (*where, "--speed", str(speed), *steps)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.run", description=__doc__)
    add = parser.add_argument
    add("--only", type=some_items, default=list(ITEMS), help="names, separated by commas")
    add("--repeats", type=int, default=1, help="plain sick and cured runs of each patient (default 1)")
    add("--pairs", type=int, default=3, help="plain and watched runs for each step length (default 3)")
    add("--seconds", type=float, default=6.0, help="rough length of each of these (default 6)")
    add("--steps", type=int, help="training steps of each patient (default: about 8 s of them)")
    add("--budget-s", type=float, default=1200.0, help="begin nothing that would end later (default 1200)")
    add("--lib", type=Path, help="a folder of wheels or packages to import from, where pip cannot be used")
    add("--data", type=Path, default=DATA, help="where patients may write; on a disk, for the cold reads")
    add("--keep", action="store_true", help="keep profiles and the table under tests/golden/, by device")
    add("--write", type=Path, help="write this device's section of docs/accuracy-gpu.md to this file")
    add("--rehearse", action="store_true", help="on the CPU, a few tiny steps: shows only that all runs")
    given = parser.parse_args(argv)
    if given.rehearse:
        given.steps, given.seconds, given.pairs = given.steps or 6, min(given.seconds, 0.5), 1
    return given


if __name__ == "__main__":
    raise SystemExit(main())
