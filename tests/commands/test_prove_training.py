"""``bdoc prove`` of a real training: it runs, it measures, and it leaves the folder as it was."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.lab.run import BDOC, execute, ours_first

SCRIPT = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((4,), float(index))


if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Slow(), batch_size=4):
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        time.sleep(0.016)
        optimizer.step()
"""


def bdoc(folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """One command, as a person starts it."""
    tmp = str(folder / "tmp")
    return execute([*BDOC, *line], cwd=folder, limit_s=200, PYTHONPATH=ours_first(), TMPDIR=tmp)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.alone
def test_a_remedy_is_proved_on_a_real_training(folder: Path) -> None:
    (folder / "tmp").mkdir()
    (folder / "train.py").write_text(SCRIPT)
    bdoc(folder, "run", "--quiet", "--no-profiler", "--no-py-spy", "--max-steps", "60", "train.py")
    asked = ["--profile", "profile.json", "--remedy", "workers-auto", "--max-steps", "60", "--budget", "1m"]
    told = bdoc(folder, "prove", *asked, "--format", "json", "--write-patch", "made.patch", "train.py")
    assert told.returncode == 0, told.stderr
    proof = json.loads(told.stdout)
    row = proof["rows"][0]
    assert (row["id"], row["verdict"], row["parity"]["word"]) == ("workers-auto", "kept", "identical"), row
    assert 1.4 < row["measured"]["likely"] < 2.6  # 16 ms of waiting for data and 16 of computing overlap
    made = subprocess.run(["git", "apply", "--check", "made.patch"], cwd=folder, check=False)
    assert made.returncode == 0
    assert (folder / "train.py").read_text() == SCRIPT
    assert sorted(os.listdir(folder)) == ["made.patch", "profile.json", "tmp", "train.py"]
    assert [name for name in os.listdir(folder / "tmp") if "bdoc" in name] == []
