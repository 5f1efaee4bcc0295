"""What every test starts from: no settings of the person who runs it, and no GPU tests without a GPU."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

COLOUR_SETTINGS = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Forget settings that would change what is tested: before any fixture, for child processes too.

    Bytecode is written: without it each of a thousand processes compiles bdoc anew, in 0.3 s, and each
    process of pytest all tests.

    Tests side by side get a short folder: below the usual one their paths pass the 108 characters that a
    socket's name may have, and a loader whose worker cannot name its socket waits for ever.
    """
    for name in list(os.environ):
        if name.startswith("BDOC_") or name in COLOUR_SETTINGS | {"PYTHONDONTWRITEBYTECODE"}:
            del os.environ[name]
    sys.dont_write_bytecode = False
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # as shells have it for jobs in the background
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.option.basetemp = tempfile.mkdtemp(prefix="bdoc-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only those are asked for that run alone, import the few files that have some."""
    if not config.option.markexpr.startswith("alone") or not collection_path.name.startswith("test_"):
        return None
    return True if "mark.alone" not in collection_path.read_text() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: side by side, no process of pytest then ends long before the other.
    What is marked `gpu` is skipped where torch has no CUDA device."""
    long, slow = ({item.path for item in items if item.get_closest_marker(mark)} for mark in ("long", "slow"))
    items.sort(key=lambda item: (item.path not in long, item.path not in slow))
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _cuda_is_here():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device and a torch built for it"))


def _cuda_is_here() -> bool:
    if not os.path.exists("/dev/nvidiactl"):
        return False
    # Asked in another process: some tests check that this one never imports torch.
    question = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", question], capture_output=True, check=False).returncode == 0
