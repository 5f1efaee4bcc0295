"""Where a start went is told apart: importing torch, other imports, the script's own work."""

from __future__ import annotations

from pathlib import Path

from bottleneck_doctor.model.startup import Startup
from tests.agent.watching import PRELUDE, profile_of, said, watched

SCRIPT = """
{work}
for batch in DataLoader(Rows(), batch_size=4):
    train_on(batch)
say(done=1)
"""


def start_of(folder: Path, before: str = "", work: str = "") -> Startup:
    told = watched(folder, before + PRELUDE + SCRIPT.format(work=work))
    assert said(told) == {"done": 1}
    (start,) = profile_of(told).startups
    return start


def test_work_before_the_first_loader_is_no_import(tmp_path: Path) -> None:
    start = start_of(tmp_path, work="time.sleep(1.5)")
    assert start.before_loader_s >= 1.5
    assert start.imports_s < 1.4
    assert start.torch_s > 0


def test_a_slow_import_before_torch_is_an_import(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"slow{number}.py").write_text("import time\ntime.sleep(0.2)\n")
    imports = "".join(f"import slow{number}\n" for number in range(8))
    start = start_of(tmp_path, before=imports)
    assert start.before_torch_s >= 1.6
    assert start.imports_s >= 1.5
