"""``bdoc merge``, and the names of profiles that hold a part of the ranks."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from bottleneck_doctor.commands.app import main
from bottleneck_doctor.commands.options import OUTPUT
from bottleneck_doctor.commands.run import of_its_ranks
from bottleneck_doctor.commands.run_options import quickly
from bottleneck_doctor.model.codec import encode_profile, read_profile
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.test_ranks import ONE_LATE, apart
from tests.commands.running import bdoc, script


def put(folder: Path, profile: Profile, hosts: str) -> None:
    for name, one in apart(profile, hosts).items():
        (folder / name).write_bytes(encode_profile(one))


def test_a_folder_of_profiles_becomes_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, ONE_LATE, "aabb")
    (folder / "profile.json").write_text("an older one, replaced")
    assert main(["merge", "."]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "4 ranks on 2 hosts"
    assert said[1].startswith("rank 3 on b comes 15")
    assert said[1].endswith("of it in work of its own")
    assert said[2] == "profile in profile.json; `bdoc report profile.json` shows it"
    assert len(read_profile("profile.json").elsewhere) == 3
    assert main(["merge", ".", "-o", "again.json"]) == 0, "what it made itself is none of the parts"
    assert main(["report", "profile.json", "--format", "markdown"]) == 0
    assert "rank 3 on b" in capsys.readouterr().out


def test_a_rank_that_is_left_out_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, ONE_LATE, "aabb")
    for name in ("profile.a.1.json", "profile.b.2.json"):
        profile = read_profile(name)
        [loop] = profile.loops
        columns = {column.name: getattr(loop.table, column.name) for column in fields(loop.table)}
        first = {name: rows[:9] for name, rows in columns.items() if isinstance(rows, list)}
        table = replace(loop.table, **first)
        few = [replace(loop, steps=9, table=table)] if "a" in name else []
        Path(name).write_bytes(encode_profile(replace(profile, loops=few)))
    assert main(["merge", "."]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "2 ranks on 2 hosts, 2 of 4 missing"
    assert said[-3] == "ranks: no training loop is in profile.b.2.json"
    assert said[-2] == "ranks: left out, having trained less than the others: 1 (9 steps)"


@pytest.mark.parametrize("given", [["nowhere.json"], ["."], ["broken.json"]])
def test_what_cannot_be_merged_is_one_line(
    folder: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.json").write_text("{")
    assert main(["merge", *given]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert not (folder / "profile.json").exists()


def seen(*ranks: int, world: int) -> Profile:
    processes = [Process(9 + rank, 1, "trainer", 0.0, rank=rank, world_size=world) for rank in ranks]
    machine = replace(ONE_LATE.machine, host="node7.cluster.example")
    return replace(ONE_LATE, processes=processes, machine=machine)


@pytest.mark.parametrize(
    ("line", "profile", "name"),
    [
        ([], seen(0, 1, world=2), "profile.json"),
        ([], seen(2, 3, world=8), "profile.node7.2.json"),
        (["-o", "runs/7/"], seen(2, 3, world=8), "runs/7/profile.node7.2.json"),
        (["-o", "."], seen(0, 1, world=2), "./profile.json"),
        (["-o", "mine.json"], seen(2, 3, world=8), "mine.json"),
        ([], replace(ONE_LATE, processes=[]), "profile.json"),
    ],
)
def test_a_part_of_the_ranks_overwrites_no_other_part(line: list[str], profile: Profile, name: str) -> None:
    options = quickly(["run", *line, "train.py"])
    assert options is not None
    assert of_its_ranks(options, profile)[OUTPUT] == name


TRAINING = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 1)
for batch in DataLoader(torch.randn(40, 4), batch_size=4):
    model(batch).sum().backward()
"""


@pytest.mark.slow
def test_tasks_of_a_launcher_write_side_by_side(folder: Path) -> None:
    srun = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
    told = bdoc(folder, script(folder, TRAINING), env=srun)
    assert told.status == 0
    (file,) = folder.glob("profile.*.1.json")
    assert json.loads(file.read_text())["processes"][0]["world_size"] == 2
    assert "bdoc" not in told.err, "the first rank's run speaks, beside a thousand others"


@pytest.mark.slow
def test_the_batch_script_of_slurm_is_no_rank(folder: Path) -> None:
    told = bdoc(folder, script(folder, TRAINING), env={"SLURM_PROCID": "0", "SLURM_NTASKS": "8"})
    assert told.profile["processes"][0]["rank"] is None
