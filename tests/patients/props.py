"""Stage props of the patients: their options, calibrated CPU work, a stand-in accelerator, a data folder."""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Options:
    """What the command line of a patient asked for; ``cured`` is the remedy to apply, "" for none."""

    cured: str
    steps: int
    truth: Path | None
    data: Path
    workers: int | None = None


def options(about: str | None, *, steps: int, step_s: float, threads: int | None = 1) -> Options:
    """Parse the patient's arguments and seed torch.

    ``step_s`` is the nominal sick step: ``--seconds`` is turned into a number of steps with it, so that
    two runs with the same arguments print the same text. One intra-op thread unless the patient is about
    threads: on a machine whose cores are shared, parallel regions wait for the slowest one.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--cured", nargs="?", const="yes", default="", metavar="REMEDY", help="apply it, and nothing else"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, help="rough length of the sick run")
    length.add_argument("--steps", type=int, help=f"training steps (default {steps})")
    parser.add_argument("--truth", type=Path, help="write the script's own timings to this file")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "bdoc-patients")
    parser.add_argument("--workers", type=int, help="workers of the cured run, where they are the cure")
    given = parser.parse_args()
    if given.seconds is not None:
        steps = max(3, round(given.seconds / step_s))
    torch.manual_seed(0)
    if threads is not None:
        torch.set_num_threads(threads)
    return Options(given.cured, given.steps or steps, given.truth, given.data, given.workers)


def burn(cpu_s: float) -> None:
    """Use exactly this much CPU time of the calling thread: a stand-in for decoding or augmenting.

    Counted on the thread's CPU clock, so that a busy machine makes it slower, as it would real work.
    """
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass


def simulated_accelerator(seconds: float) -> None:
    """Stands for a device that computes while the host thread waits for it."""
    time.sleep(seconds)


def random_file(path: Path, size_bytes: int) -> Path:
    """A file of random bytes on the disk, made once and kept for the next run."""
    if not path.exists() or path.stat().st_size != size_bytes:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        with draft.open("wb") as file:
            for start in range(0, size_bytes, 1 << 20):
                file.write(os.urandom(min(1 << 20, size_bytes - start)))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    return path
