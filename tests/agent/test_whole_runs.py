"""Starts, two trainers and odd users: a run under bdoc prints what it prints plainly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.model.run import Elapsed
from tests.agent.odd_users import data, loops, samples, surroundings  # noqa: F401 - they list their users
from tests.agent.odd_users.rows import USERS
from tests.agent.watching import PRELUDE, profile_of, watched
from tests.house.source import ROOT

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
    assert life.exit_s - life.last_s > 0.69
    assert 0.29 < life.between_s < life.exit_s - life.last_s
    assert life.starting_s == 0.0


def test_workers_that_start_and_stop_each_epoch_have_times_of_their_own(tmp_path: Path) -> None:
    life = life_of(tmp_path, workers=2)
    assert life.beginnings == 2
    assert 0 < life.first_start_s < life.starting_s
    assert life.stopping_s > 0


def test_a_process_that_is_killed_tells_no_end(tmp_path: Path) -> None:
    assert life_of(tmp_path, end="say(done=1); os.kill(os.getpid(), 9)").exit_s is None


def _printed(command: list[str], folder: Path) -> dict[str, str]:
    """What each user printed, by name; the process must have ended well."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*command, "-m", "tests.agent.odd_users"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sections = [section.partition("\n") for section in done.stdout.split("## ")[1:]]
    return {name: text for name, _, text in sections}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    folder = tmp_path_factory.mktemp("odd")
    plain = _printed([sys.executable], folder)
    bdoc = [sys.executable, "-m", "bottleneck_doctor", "run", "--quiet", "--no-py-spy"]
    return plain, _printed(bdoc, folder)


@pytest.mark.parametrize("name", USERS)
def test_an_odd_user_sees_no_difference(name: str, both: tuple[dict[str, str], dict[str, str]]) -> None:
    plain, watched = both
    assert plain[name]
    assert watched[name] == plain[name]
