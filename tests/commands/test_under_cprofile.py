"""``--cprofile`` slows a script down and changes nothing else about it."""

from __future__ import annotations

import pstats
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.running import bdoc, gaps, plain, script

CPROFILED = {
    "exits": "import sys; print(__name__, sys.argv, sys.path[0]); sys.exit(3)",
    "raises": "raise KeyError('x')",
    "is interrupted": "import os; os.kill(os.getpid(), 2)",
    "has threads": """
import threading
thread = threading.Thread(target=print, args=("from a thread",))
thread.start()
thread.join()
""",
    "spawns": """
import multiprocessing
def twice(number):
    return 2 * number
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(twice, [1, 2]))
""",
}


@pytest.mark.parametrize("source", CPROFILED.values(), ids=CPROFILED)
@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_under_cprofile_a_script_ends_as_without(source: str, module: bool, folder: Path) -> None:
    line = ["-m", "train"] if module else [str(folder / "train.py")]
    script(folder, source)
    told = bdoc(folder, "--cprofile", *line, "a", "-m")
    assert (told.status, told.out) == plain(folder, *line, "a", "-m")
    assert any("train.py" in file for file, _, _ in pstats.Stats(str(folder / "profile.prof")).stats)  # type: ignore[attr-defined]
    assert "cProfile's times in profile.prof" in told.err


@pytest.mark.parametrize(
    "source", ["def f():\n    raise KeyError('x')\nf()", "x = (", "import os; os.kill(os.getpid(), 2)"]
)
def test_what_a_script_says_about_its_failure_is_its_own(source: str, folder: Path) -> None:
    """No frame of the runner, of runpy or of cProfile stands in the traceback."""
    name = script(folder, source)
    told = bdoc(folder, "--quiet", "--cprofile", name)
    without = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)
    status = without.returncode if without.returncode >= 0 else 128 - without.returncode
    assert (told.status, told.err) == (status, without.stderr)


def test_a_script_named_from_where_one_stands_sees_itself_as_always(folder: Path) -> None:
    """In ``sys.argv``, in its own globals, and in ``__main__`` once it is over."""
    script(
        folder,
        """
import atexit, sys, __main__
number: int = 1
print(sys.argv, __file__, __spec__, sorted(globals()), __builtins__)
atexit.register(lambda: print(sys.modules["__main__"] is __main__, __main__.number))
""",
    )
    told = bdoc(folder, "--cprofile", "train.py", "a")
    assert (told.status, told.out) == plain(folder, "train.py", "a")


def test_where_cprofile_cannot_tell_it_is_said(folder: Path) -> None:
    killed = bdoc(folder, "--cprofile", script(folder, "import os; os._exit(7)"))
    assert killed.status == 7
    assert "bdoc: cProfile left nothing" in killed.err
    launched = bdoc(folder, "--cprofile", "--", sys.executable, script(folder, "print(1)"))
    assert "launcher" in gaps(launched)["cProfile"]
    assert not (folder / "profile.prof").exists()
