"""Trainings that break in a trial are reported as what they are, in time, and leave nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.model.run import Order, Treatment
from bottleneck_doctor.prove import trial_processes
from bottleneck_doctor.prove.trial_limits import Limits
from bottleneck_doctor.prove.trial_processes import blocks, mapped_blocks
from bottleneck_doctor.prove.trials import Finished, Target, run_trial, trial_folder

pytestmark = [pytest.mark.slow, pytest.mark.long]

BROKEN = Path(__file__).with_name("broken")
ENDING_S = 12.0  # of a trial whose time is over, on a busy machine: 3 s of grace, and clearing up
PATIENCE_S = 20.0
SHM = Path("/dev/shm")


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process below us, no shared memory, no folder but what any killed multiprocessing leaves."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(trial_processes, "GRACE_S", 1.0)
    processes, shared = set(psutil.Process().children(recursive=True)), orphaned_blocks()
    yield
    assert living(set(psutil.Process().children(recursive=True)) - processes) == []
    assert [
        one.name for one in tmp_path.iterdir() if not one.name.startswith(("torchinductor", "pymp-"))
    ] == []
    until = time.monotonic() + PATIENCE_S
    while not orphaned_blocks() <= shared:  # that of another training may be on its way out
        assert time.monotonic() < until, blocks()
        time.sleep(0.2)


def living(some: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; a zombie has, and is there until its parent asks."""
    found = []
    for one in some:
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def orphaned_blocks() -> set[int]:
    """Those that no living process holds: other trainings may run on this machine meanwhile."""
    found = set(blocks())
    return found - {inode for pid in psutil.pids() for inode in mapped_blocks(pid)} if found else found


def trial(script: str, *args: str, order: Order | None = None, **limits: float) -> Finished:
    """The outcome of one of the broken trainings, and that it came in time."""
    bounds = Limits(**{"steps": 40, "seconds": 30.0, **limits})  # type: ignore[arg-type]
    found = run_trial(Target(script=str(BROKEN / script), args=args), order or Order(), bounds)
    assert found.run_s < bounds.seconds + ENDING_S
    return found


def test_a_training_that_leaves_with_a_status_broke_and_its_last_words_say_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though a module where the user stands has the name of one of Python's."""
    order = Order([Treatment("environment", {"MISSING": "a learning rate"})])
    with tempfile.TemporaryDirectory() as here:
        (Path(here) / "queue.py").write_text("raise SystemExit('a queue of my own')")
        monkeypatch.chdir(here)
        found = trial("exits.py", order=order)
        monkeypatch.undo()
    assert (found.outcome, found.why) == ("broke", "the configuration lacks a learning rate (exit status 3)")


def test_a_training_that_ignores_requests_to_end_is_ended_all_the_same() -> None:
    found = trial("ignores_sigterm.py", first_batch_s=1.0)
    assert (found.outcome, found.why) == ("hung", "no first batch within 1 s")


def test_a_training_that_stops_moving_hung_long_before_its_time_is_over() -> None:
    found = trial("hangs.py", silence_s=1.5)
    assert found.outcome == "hung"
    assert found.why.startswith("no batch for 2 s, after ")


def test_a_daemon_that_outlives_the_training_is_ended_with_it(tmp_path: Path) -> None:
    told = tmp_path / "torchinductor-pid"  # a name that may stay
    trial("leaves_a_daemon.py", str(told))
    assert living(one for one in psutil.process_iter() if one.pid == int(told.read_text())) == []


def test_shared_memory_of_killed_processes_is_removed_and_other_files_there_stay() -> None:
    kept = SHM / f"cache-of-{os.getpid()}"
    kept.touch()
    before = blocks()
    try:
        found = trial("leaks_blocks.py")
        assert kept.exists()
    finally:
        kept.unlink()
    assert (found.outcome, found.why.endswith("killed")) == ("broke", True)
    assert blocks().keys() <= before.keys() | orphaned_blocks()


CALLER = """
import sys
from bottleneck_doctor.model.run import Order
from bottleneck_doctor.prove.trial_limits import Limits
from bottleneck_doctor.prove.trials import Target, run_trial

print("began", flush=True)
told = lambda seconds: print("waits", flush=True)
found = run_trial(Target(script=sys.argv[1]), Order(), Limits(40, 60.0), watch=told)
print(found.outcome, flush=True)
"""


def interrupt(script: str, number: int) -> tuple[str, int, list[psutil.Process]]:
    """Send a signal to a process that carries out a trial: its last word, its status, and those below it."""
    line = [sys.executable, "-c", CALLER, str(BROKEN / script)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        for _ in range(4):
            said = caller.stdout.readline()
        below = psutil.Process(caller.pid).children(recursive=True)
        caller.send_signal(number)
        said = (said + caller.stdout.read()).split()[-1]
        return said, caller.wait(PATIENCE_S), below


def test_whoever_interrupts_us_interrupts_the_trial() -> None:
    *ending, below = interrupt("ignores_sigterm.py", signal.SIGINT)
    assert ending == ["interrupted", 0]
    assert living(below) == []


def test_a_trial_ends_when_we_are_killed(tmp_path: Path) -> None:
    *_, below = interrupt("sleeps.py", signal.SIGKILL)
    _, alive = psutil.wait_procs(below, PATIENCE_S)
    assert alive == []
    with trial_folder(lambda folder: True):  # the next one clears up after it
        assert len(list(tmp_path.iterdir())) == 1
