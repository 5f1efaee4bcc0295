"""``bdoc attach``: a training that was started without us is looked at, told about, and left as it was."""

import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from tests.commands.running import script
from tests.lab.run import BDOC, execute, ours_first

SCRIPT = """
import select, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        total = 0
        for place in range(20_000):
            total += place * place
        return torch.full((8,), float(total % 7))

if __name__ == "__main__":
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    print("begins", flush=True)
    until = time.monotonic() + 60
    for batch in DataLoader(Rows(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if time.monotonic() > until or select.select([sys.stdin], [], [], 0)[0]:  # nobody is there any more
            break
    print("ended", flush=True)
"""


def attach(folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    return execute([*BDOC, "attach", *line], cwd=folder, PYTHONPATH=ours_first())


@pytest.mark.slow
@pytest.mark.long
def test_a_training_that_runs_is_told_about_and_goes_on(tmp_path: Path) -> None:
    name = script(tmp_path, SCRIPT)
    command, pipe = [sys.executable, name], subprocess.PIPE
    training = subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True)
    assert training.stdout is not None
    assert training.stdout.readline() == "begins\n"
    told = attach(tmp_path, str(training.pid), "--seconds", "8")
    assert training.poll() is None, "it was only looked at"
    out, _ = training.communicate("")
    assert (training.returncode, out) == (0, "ended\n")
    if "cannot be sampled" in told.stderr:
        pytest.skip(told.stderr.strip())
    assert told.returncode == 0, told.stderr
    assert "steps were not timed" in " ".join(told.stdout.split())
    report = write_up(read_profile(tmp_path / "profile.json"))
    assert (report.verdict.bound, report.verdict.cause) == ("cpu", "input.preprocess"), report.verdict
    assert (report.metrics["data_wait_fraction"].value or 0) > 0.5
    assert any("without bdoc" in gap.why for gap in report.quality.gaps)


@pytest.mark.parametrize("pid", ["0", "4194999"])
def test_a_process_that_is_not_there_is_refused(pid: str, tmp_path: Path) -> None:
    told = attach(tmp_path, pid)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == f"bdoc: no process {pid} runs here [usage]\n"
    assert list(tmp_path.iterdir()) == []
