"""``BdocCallback`` in the frameworks themselves, as far as they are installed."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.callbacks import BdocCallback
from bottleneck_doctor.model.codec import read_profile
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
