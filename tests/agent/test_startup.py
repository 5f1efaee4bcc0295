"""Where a start went is told apart: importing torch, other imports, the script's own work."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.model.run import Elapsed, Startup
from tests.agent.watching import PRELUDE, profile_of, said, watched

SCRIPT = """
{work}
for batch in DataLoader(Rows(), batch_size=4):
    train_on(batch)
say(done=1)
"""


def start_of(folder: Path, before: str = "", work: str = "") -> Startup:
    told = watched(folder, before + PRELUDE + SCRIPT.format(work=work), fresh=True)
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


ENDING = """
loader = DataLoader(Rows(), batch_size=4, num_workers={workers})
for epoch in range(2):
    for batch in loader:
        train_on(batch)
    time.sleep(0.3)
time.sleep(0.4)
{end}
"""


def life_of(folder: Path, workers: int = 0, end: str = "say(done=1)") -> Elapsed:
    told = watched(folder, PRELUDE + ENDING.format(workers=workers, end=end))
    (life,) = profile_of(told).elapsed
    return life


def test_a_script_that_goes_on_after_its_loop_tells_when_it_ends(tmp_path: Path) -> None:
    life = life_of(tmp_path)
    assert life.exit_s is not None
    assert life.exit_s - life.last_s == pytest.approx(0.7, abs=0.2)
    assert life.between_s == pytest.approx(0.3, abs=0.2)
    assert life.starting_s == 0.0


def test_workers_that_start_and_stop_each_epoch_have_times_of_their_own(tmp_path: Path) -> None:
    life = life_of(tmp_path, workers=2)
    assert life.beginnings == 2
    assert 0 < life.first_start_s < life.starting_s
    assert life.stopping_s > 0


def test_a_process_that_is_killed_tells_no_end(tmp_path: Path) -> None:
    assert life_of(tmp_path, end="say(done=1); os.kill(os.getpid(), 9)").exit_s is None
