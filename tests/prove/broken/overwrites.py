"""Overwrites, replaces and deletes what is there, in every way that trainings do; "killed": and dies."""

import json
import os
import shutil
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def write() -> None:
    torch.save(model.state_dict(), "best.pt")
    torch.save(model.state_dict(), "best.pt")
    with open("metrics.json", "w") as file:
        json.dump({"loss": 0}, file)
    torch.save(model.state_dict(), "part.pt")
    os.replace("part.pt", "atomic.pt")
    os.replace("last.pt", "previous.pt")
    torch.save(model.state_dict(), "last.pt")
    Path("previous.pt").write_text("worthless")
    os.remove("doomed.txt")
    shutil.rmtree("out")
    Path("out/deep").mkdir(parents=True)
    Path("out/deep/a.txt").write_text("worthless")
    with open("train.log", "a") as file:
        file.write("worthless\n")
    os.remove("newest")
    os.symlink("metrics.json", "newest")
    os.rename("runs", "runs.old")
    os.mkdir("runs")
    Path("made.txt").write_text("new")
    Path("made.txt").write_text("newer")
    assert Path("best.pt").stat().st_size > 500, "the script sees what it wrote"


for step, batch in enumerate(DataLoader(torch.ones(400, 4), batch_size=4)):
    if step == 5:
        write()
    if step == 10 and sys.argv[1] == "killed":
        os.kill(os.getpid(), 9)
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
