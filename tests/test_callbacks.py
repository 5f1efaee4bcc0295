"""``BdocCallback`` in the frameworks themselves, as far as they are installed."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bottleneck_doctor.callbacks import BdocCallback
from bottleneck_doctor.model.codec import read_profile
from bottleneck_doctor.model.profile import Profile
from tests.house.source import ROOT

STARTS = ROOT / "tests/quickstarts"
# The quick start of each, its one line that is changed, and what it becomes.
USES = {
    "lightning": ("with_lightning.py", "logger=False", "logger=False, callbacks=[BdocCallback()]"),
    "transformers": ("with_trainer.py", "args=arguments,", "args=arguments, callbacks=[BdocCallback()],"),
    "accelerate": ("with_accelerate.py", "    main()", "    with BdocCallback():\n        main()"),
}
HEAD = "from bottleneck_doctor.callbacks import BdocCallback\n"
TAIL = """
import sys, torch
assert not [one for one in sys.modules if one.startswith("_bdoc")], "the agent is still here"
assert not hasattr(torch.autograd.backward, "_bdoc_original")
"""


def _run(folder: Path, script: str, *line: str, status: int = 0) -> str:
    """stderr of a script, or of ``bdoc run`` of it."""
    (folder / "train.py").write_text(script)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *line, "train.py"]
    done = subprocess.run(
        command, cwd=folder, env=environ, text=True, capture_output=True, timeout=240, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stderr


def _script(library: str) -> str:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    name, before, after = USES[library]
    text = (STARTS / name).read_text()
    assert text.count(before) == 1
    return HEAD + text.replace(before, after)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("library", USES)
def test_it_saves_the_launch(library: str, tmp_path: Path) -> None:
    said = _run(tmp_path, _script(library) + TAIL)
    assert "where a step goes" in said
    assert "`bdoc report " in said
    profile = read_profile(str(tmp_path / "profile.json"))
    assert profile.loaders[0].dataset in ("Clips", "Texts")
    assert sum(loop.steps for loop in profile.loops) > 300
    assert profile.run.exit_status == 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_a_fit_that_fails_is_seen_until_then(library: str, tmp_path: Path) -> None:
    asked = "    def __getitem__(self, index):\n"
    script = _script(library)
    assert script.count(asked) == 1
    raises = "        Dataset.seen = getattr(Dataset, 'seen', 0) + 1\n        if Dataset.seen > 400:\n"
    fails = script.replace(asked, f"{asked}{raises}            raise KeyError('the user')\n")
    assert "KeyError: 'the user'" in _run(tmp_path, fails, status=1)
    profile = _read_late(tmp_path / "profile.json")
    assert sum(loop.steps for loop in profile.loops) > 10


def _read_late(file: Path) -> Profile:
    """The Trainer tells nobody that it failed: the profile is written when the process has ended."""
    end = time.monotonic() + 15
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.1)
    return read_profile(str(file))


@pytest.mark.slow
def test_under_bdoc_run_it_does_nothing(tmp_path: Path) -> None:
    script = HEAD + "with BdocCallback() as one:\n    assert one.watch is None\n"
    _run(tmp_path, script, "-m", "bottleneck_doctor", "run", "-q")
    assert (tmp_path / "profile.json").exists()


def test_it_is_of_the_classes_that_were_imported_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    class Callback:
        pass

    class TrainerCallback:
        pass

    assert type(BdocCallback()) is BdocCallback
    for name, kind in (("lightning.pytorch", Callback), ("transformers", TrainerCallback)):
        module = type(sys)(name)
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)
    both = BdocCallback(show=False, output="x.json")
    assert isinstance(both, Callback)
    assert isinstance(both, TrainerCallback)
    again = pickle.loads(pickle.dumps(both))
    assert isinstance(again, Callback)
    assert (again._show, again._options) == (False, {"output": "x.json"})
