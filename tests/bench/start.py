"""``python -m tests.bench.start``: what a process pays for the agent before it does anything."""

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from tests.house.source import PACKAGE, ROOT
from tests.lab.run import in_turn

TIMES = 60
LOADED = """
import sys
files = [one.__file__ for name, one in list(sys.modules.items()) if name.startswith("_bdoc_agent")]
print(len(files), sum(len(open(file).readlines()) for file in files))
"""


def main() -> int:
    """Print the medians of starts with and without, and how much of ours is loaded with and without torch."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BDOC_")}
    with tempfile.TemporaryDirectory() as folder:
        home = ROOT / PACKAGE
        door = {"PYTHONPATH": str(home / "inject"), "BDOC_RUN": folder, "BDOC_AGENT": str(home / "agent")}
        environs = {"plain": plain, "bdoc": plain | door}
        starts = in_turn(TIMES, environs, lambda name: _seconds("pass", environs[name]))
        for imports in ("", "import torch"):
            files, lines = _said(imports + LOADED, plain | door)
            print(f"{imports or 'nothing imported'}: {files} files of ours, {lines} lines")
    without, within = (median(starts[name]) for name in ("plain", "bdoc"))
    print(f"start: {without * 1e3:.1f} ms, with bdoc {within * 1e3:.1f} ms (medians of {TIMES}, in turn)")
    return 0


def _seconds(script: str, environ: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], env=environ, check=True)
    return time.perf_counter() - began


def _said(script: str, environ: dict[str, str]) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", script], env=environ, check=True, capture_output=True, text=True
    ).stdout.split()


if __name__ == "__main__":
    raise SystemExit(main())
