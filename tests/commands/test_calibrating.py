"""``bdoc run --calibrate`` times remedies after the training, and costs neither its status nor its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import bdoc, gaps, script

pytestmark = [pytest.mark.slow, pytest.mark.long]

QUIETLY = ["-q", "--no-profiler", "--no-py-spy"]
# Every sample is a small file, read cold: the pages are dropped after each read.
SMALL_FILES = """
import os, sys
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Files(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        number = os.open(f"data/{index}.bin", os.O_RDONLY)
        data = os.pread(number, 16384, 0)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)
        return torch.tensor([float(data[0])])

if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(6):
        for batch in DataLoader(Files(), batch_size=16, num_workers=1):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    print("trained")
    sys.exit(STATUS)
"""
INTERRUPTED = """
import os, signal, time
from bottleneck_doctor.calibrate import calibrate
def ask(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)
calibrate.ask = ask
"""


def training(folder: Path, status: int = 0) -> str:
    (folder / "data").mkdir()
    for number in range(64):
        (folder / "data" / f"{number}.bin").write_bytes(os_random(number))
    return script(folder, SMALL_FILES.replace("STATUS", str(status)))


def os_random(number: int) -> bytes:
    return bytes([number]) * 16_384


def test_calibrations_lie_in_the_profile_and_nowhere_else(folder: Path) -> None:
    told = bdoc(folder, *QUIETLY, "--calibrate", training(folder, status=3))
    assert (told.status, told.out, told.left) == (3, b"trained\n", [])
    subjects = {row["subject"] for row in told.profile["calibrations"]}
    cold = sum(told.profile["fetches"][0]["storage_bytes"]) > 0  # not on a file system in memory
    assert subjects == ({"file", "files"} if cold else {"files"})
    assert [hot["paths"] for hot in told.profile["hot_files"]] == [[]]
    assert sorted(path.name for path in folder.iterdir() if "bdoc" in path.name) == []
    assert {path.read_bytes() == os_random(int(path.stem)) for path in (folder / "data").iterdir()} == {True}


def test_without_the_option_nothing_is_timed(folder: Path) -> None:
    told = bdoc(folder, *QUIETLY, training(folder))
    assert (told.status, told.profile["calibrations"]) == (0, [])


def test_an_interrupt_while_calibrating_leaves_the_profile_and_the_trainings_status(folder: Path) -> None:
    told = bdoc(folder, *QUIETLY, "--calibrate", training(folder), first=INTERRUPTED)
    assert (told.status, told.out, told.left) == (0, b"trained\n", [])
    assert told.profile["loops"]
    stored = sum(told.profile["fetches"][0]["storage_bytes"]) > 0
    assert gaps(told).get("calibration") == ("it was interrupted" if stored else None)
