"""The quick starts work as their pages tell: the script in an empty folder, the command, a report."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.quickstarts.pages import QuickStart, quick_starts, type_in

STARTS = quick_starts()
NEEDS = {"lightning": "lightning", "trainer": "transformers", "accelerate": "accelerate"}
RANKS = {"torchrun": 2}


def test_there_is_a_page_for_each_way_of_training() -> None:
    assert {start.page for start in STARTS} == {"plain", "lightning", "trainer", "accelerate", "torchrun"}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.page)
def test_the_command_of_a_page_leads_to_a_report(start: QuickStart, tmp_path: Path) -> None:
    _skip_where_it_cannot_run(start)
    done = type_in(start, tmp_path, ["--max-steps", "60"])
    assert done.returncode == 0, done.stderr
    for said in ("where a step goes", "data wait", "overhead:", "profile: profile.json"):
        assert said in done.stderr, done.stderr
    profile = json.loads((tmp_path / "profile.json").read_bytes())
    fed = {one["pid"] for one in profile["loaders"] if one["dataset"] in ("Clips", "Texts")}
    assert len(fed) == RANKS.get(start.page, 1)
    assert profile["run"]["stopped_by"] == "max-steps"


def _skip_where_it_cannot_run(start: QuickStart) -> None:
    for name in filter(None, ["torch", NEEDS.get(start.page)]):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    launcher = start.command[3] if start.command[2] == "--" else sys.executable
    if not (shutil.which(launcher, path=str(Path(sys.executable).parent)) or shutil.which(launcher)):
        pytest.skip(f"{launcher} is not installed")
