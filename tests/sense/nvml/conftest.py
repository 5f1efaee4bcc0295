"""Builds the library that speaks NVML, and lets the real binding ask it in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc")
ONE = "gpu name=H100 uuid=GPU-aa"

Ask = Callable[..., Any]
Stage = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with today's driver library and with one of 2021."""
    if COMPILER is None:
        pytest.skip("the library that speaks NVML needs a C compiler")
    folders = {}
    for name, flags in {"today": [], "old": ["-DOLD"]}.items():
        folders[name] = tmp_path_factory.mktemp(name)
        built = folders[name] / "libnvidia-ml.so.1"
        command = [COMPILER, "-O1", "-shared", "-fPIC", *flags, "-o", built, HERE / "library.c"]
        subprocess.run(command, check=True, timeout=120)
    return folders


@pytest.fixture
def stage(libraries: dict[str, Path], tmp_path: Path) -> Stage:
    """Writes a scenario; the environment in which a process finds it and the library."""

    def set_up(*lines: str, library: str = "today") -> dict[str, str]:
        scenario = tmp_path / "scenario"
        scenario.write_text("\n".join(lines) + "\n")
        known = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
        python = os.pathsep.join([str(ROOT), *filter(None, [known.get("PYTHONPATH")])])
        paths = {"LD_LIBRARY_PATH": str(libraries[library]), "PYTHONPATH": python}
        return {**known, **paths, "NVML_SCENARIO": str(scenario)}

    return set_up


@pytest.fixture
def ask(stage: Stage, tmp_path: Path) -> Ask:
    """What child.py answers on a machine with these GPUs: see there for what can be asked."""

    def run(what: str, *lines: str, library: str = "today", **wishes: Any) -> Any:
        environment = {**stage(*lines, library=library), **wishes.pop("environment", {})}
        child = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", str(HERE / "child.py")]
        done = subprocess.run(
            [*child, what, json.dumps(wishes)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return SimpleNamespace(**json.loads(done.stdout))

    return run
