"""The door: shut, it imports nothing; open, only the standard library and the agent; and it never hurts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import PACKAGE, ROOT

INJECT = ROOT / PACKAGE / "inject"
AGENT = ROOT / PACKAGE / "agent"

# Each costs a millisecond or more at every interpreter start, in every loader worker too.
# (`platform` brings `subprocess` along before Python 3.11.)
TOO_DEAR = frozenset(
    "argparse asyncio concurrent.futures ctypes dataclasses email http inspect logging multiprocessing "
    "pathlib pickle platform random socket ssl statistics subprocess tempfile typing unittest "
    "urllib uuid zipfile".split()
)

CENSUS = """
import json, sys
named = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
print(json.dumps({"modules": named, "threads": len(sys._current_frames()), "path": sys.path}))
"""


@pytest.fixture
def open_door(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that bdoc watches."""
    run = tmp_path / "run"
    run.mkdir()
    return {"PYTHONPATH": str(INJECT), "BDOC_RUN": str(run), "BDOC_AGENT": str(AGENT)}


MOST_LINES = 1200  # of ours in an interpreter that never imports torch; it only shrinks


def test_shut_it_imports_nothing() -> None:
    timed = ["-X", "importtime", "-c", "pass"]
    without = _imported(_python(timed, {}).stderr)
    behind = _imported(_python(timed, {"PYTHONPATH": str(INJECT)}).stderr)
    assert "sitecustomize" in behind, "the door was not found: this test would pass whatever it imports"
    assert behind - without <= {"sitecustomize"}, "return before importing anything when BDOC_RUN is not set"


def test_open_it_brings_little_of_ours_and_of_others_the_cheap_standard_library_alone(
    open_door: dict[str, str],
) -> None:
    plain, watched = _census({}), _census(open_door)
    new = {name: file for name, file in watched["modules"].items() if name not in plain["modules"]}
    ours = {name: Path(file) for name, file in new.items() if file and Path(file).is_relative_to(AGENT)}
    assert 0 < sum(len(file.read_text().splitlines()) for file in ours.values()) <= MOST_LINES
    others = new.keys() - ours.keys() - {"sitecustomize"}
    strangers = {name for name in others if name.partition(".")[0] not in sys.stdlib_module_names}
    assert not strangers, "the guest is stdlib only; it does not import torch"
    dear = others & TOO_DEAR
    assert not dear, (
        f"each start of an interpreter pays for {sorted(dear)}: import them in the function that needs them"
    )
    assert watched["threads"] == 1
    assert watched["path"] == plain["path"]


@pytest.mark.parametrize("door", ["shut", "open"])
def test_the_sitecustomize_that_it_displaced_still_runs(
    door: str, tmp_path: Path, open_door: dict[str, str]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import builtins; builtins.greeting = 'still here'\n")
    environment = open_door if door == "open" else {}
    environment = {**environment, "PYTHONPATH": f"{INJECT}{os.pathsep}{theirs}"}
    done = _python(["-c", "print(greeting)"], environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "still here\n", "")


@pytest.mark.parametrize(
    "broken",
    [
        {"BDOC_RUN": "/nowhere/at/all"},
        {"BDOC_AGENT": "/nowhere/at/all"},
        {"BDOC_RUN": "/dev/null"},
        {"BDOC_RUN": "", "BDOC_AGENT": ""},
        {"BDOC_RUN": None, "BDOC_AGENT": None},
    ],
)
def test_a_broken_door_leaves_the_program_unharmed(
    broken: dict[str, str | None], open_door: dict[str, str]
) -> None:
    environment = {name: value for name, value in {**open_door, **broken}.items() if value is not None}
    done = _python(["-c", "print('trained'); raise SystemExit(7)"], environment)
    assert (done.returncode, done.stdout, done.stderr) == (7, "trained\n", "")


def _python(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("BDOC_", "PYTHON"))
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env={**inherited, **environment},
        cwd="/",
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )


def _census(environment: dict[str, str]) -> dict[str, Any]:
    done = _python(["-c", CENSUS], environment)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def _imported(importtime: str) -> set[str]:
    """The modules in what `-X importtime` prints."""
    lines = importtime.splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
