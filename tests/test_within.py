"""``watch()``: a block of a process that runs already is seen as a run is, and the process is unharmed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import bottleneck_doctor
from bottleneck_doctor.model.codec import read_profile
from tests.agent.torch_server import server
from tests.house.source import ROOT

PATIENCE_S = 150.0
ABOUT_32 = pytest.approx(26, abs=6)  # steps of 32; those after the last look are not known
TRAINING = """
import contextlib, json, os, random, sys, threading
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 256
    def __getitem__(self, index):
        total = 0
        for step in range(20_000):
            total += step
        return torch.full((8,), index / 256 + random.random() + torch.rand(1).item())

torch.manual_seed(0)
random.seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

def train(loader, steps=32):
    for _, batch in zip(range(steps), loader):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

def say(**values):
    print(json.dumps(values), flush=True)
"""


def trained(folder: Path, body: str, training: str = TRAINING, **environ: str) -> dict[str, Any]:
    """What a script said that trains in blocks; it must end well, and leave nothing in TMPDIR."""
    (folder / "train.py").write_text(f"{training}\nfrom bottleneck_doctor import watch\n{body}")
    places = folder / "tmp"
    places.mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(places), **environ}
    status, out, err = server().run(["train.py"], folder, environ, PATIENCE_S)
    assert status == 0, err.decode()
    assert not [name for name in os.listdir(places) if "bdoc" in name]
    return {name: value for line in out.splitlines() for name, value in json.loads(line).items()}


def _run(folder: Path, *line: str, **environ: str) -> str:
    """What Python prints that is called with these arguments; it must end well."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    done = subprocess.run(
        [sys.executable, *line], cwd=folder, env=environ, text=True, capture_output=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_block_leaves_a_report_and_the_process_as_it_was(tmp_path: Path) -> None:
    body = """
environ, before = dict(os.environ), DataLoader.__iter__
loader = DataLoader(Rows(), 8)
with (contextlib.nullcontext() if os.environ.get("PLAIN") else watch()) as w:
    train(loader)
    kept, hooked = DataLoader.__iter__, DataLoader.__iter__ is not before
say(losses=losses, draws=[random.random(), torch.rand(1).item()], threads=threading.active_count(),
    environ=environ == dict(os.environ), back=DataLoader.__iter__ is before is kept, hooked=hooked)
if w:
    say(path=w.path, same=repr(w.report))
"""
    seen, bare = trained(tmp_path, body), trained(tmp_path, body, PLAIN="1")
    assert (seen["hooked"], bare["hooked"]) == (True, False)
    for name in ("losses", "draws", "threads", "environ", "back"):
        assert seen[name] == bare[name]
    assert seen["path"] == str(tmp_path / "profile.json")
    report = bottleneck_doctor.load(seen["path"])
    assert seen["same"] == repr(report)
    assert report.run.script == "train.py"
    profile = read_profile(seen["path"])
    assert [loop.steps for loop in profile.loops] == [ABOUT_32]
    assert profile.loaders[0].location is None, "it was built before the block: on which line, nobody saw"


@pytest.mark.slow
def test_blocks_may_follow_each_other_and_see_workers_however_they_start(tmp_path: Path) -> None:
    body = """
if __name__ == "__main__":
    forked = DataLoader(Rows(), 8, num_workers=1, persistent_workers=True)
    spawned = DataLoader(Rows(), 8, num_workers=1, multiprocessing_context="spawn")
    paths = []
    for number, loader in enumerate((forked, forked, spawned)):
        with watch(f"{number}.json") as w:
            train(loader)
        paths.append(w.path)
    say(paths=paths, left=[name for name in sys.modules if name.startswith("_bdoc")])
"""
    told = trained(tmp_path, body)
    assert told["left"] == []
    profiles = [read_profile(path) for path in told["paths"]]
    assert [[loop.steps for loop in one.loops] for one in profiles] == [[ABOUT_32]] * 3
    workers = [sum(process.role == "worker" for process in one.processes) for one in profiles]
    assert workers == [1, 0, 1], "those that lived before the second block have no agent of its own"
    assert [bool(one.fetches) for one in profiles] == [True, False, True]


@pytest.mark.slow
def test_an_iteration_that_is_older_than_the_block_is_seen_from_its_next_batch(tmp_path: Path) -> None:
    """One that is unlike those that are known goes on unseen."""
    body = """
for workers in (0, 1):
    batches = iter(DataLoader(Rows(), 2, num_workers=workers))
    train(batches, steps=8)
    with watch(f"{workers}.json"):
        train(batches, steps=70)
batches = iter(DataLoader(Rows(), 8))
del batches._collate_fn  # which the agent reads
with watch("unlike.json"):
    train(batches)
    during = vars(batches)["_bdoc"]
say(during=during, losses=len(losses), left="_bdoc" in vars(batches))
"""
    told = trained(tmp_path, body, TRAINING.replace("20_000", "300_000"))
    assert told == {"during": None, "losses": 2 * 78 + 32, "left": False}
    for workers, cause in (0, "input.preprocess"), (1, "none"):
        report = bottleneck_doctor.load(str(tmp_path / f"{workers}.json"))
        wait = report.metrics["data_wait_fraction"].value
        assert wait is not None
        assert wait > 0.5
        assert report.verdict.cause == cause, "what workers did that nobody watches is not known"


@pytest.mark.slow
def test_ranks_that_watch_themselves_are_no_strangers_to_each_other(tmp_path: Path) -> None:
    loop = "with watch():\n    train(DataLoader(Rows(), 2), steps=96)\n"
    script = f"{TRAINING.replace('20_000', '300_000')}\nfrom bottleneck_doctor import watch\n{loop}"
    launcher = f"""
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", {script!r}], env=dict(os.environ, RANK=rank, WORLD_SIZE="2"))
         for rank in "01"]
sys.exit(any([rank.wait() for rank in ranks]))"""
    _run(tmp_path, "-c", launcher)
    profiles = [read_profile(str(file)) for file in sorted(tmp_path.glob("profile.*.json"))]
    assert [profile.processes[0].rank for profile in profiles] == [0, 1]
    for profile in profiles:
        used = [one for one in profile.series.values["other_ranks_cpu_s"] if one is not None]
        assert max(profile.series.values["other_ranks"], key=lambda count: count or 0) == 1
        assert used[-1] > used[0]


@pytest.mark.slow
def test_what_goes_wrong_in_a_block_passes_through(tmp_path: Path) -> None:
    body = """
before = DataLoader.__iter__
try:
    with watch("failed.json") as w:
        train(DataLoader(Rows(), 8))
        pid = os.fork()
        if not pid:
            sys.exit(3)  # unwinds the block in the child
        child = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        try:
            with watch():
                pass
        except RuntimeError as nested:
            said = str(nested)
        raise KeyError("the user's")
except KeyError as error:
    say(error=str(error), child=child, nested=said, back=DataLoader.__iter__ is before, path=w.path)
for options in ({"output": "/dev/null/all.json"}, {"colour": 1}):
    try:
        with watch(**options):
            say(entered=True)
    except ValueError as refused:
        say(**{list(options)[0]: str(refused)})
"""
    told = trained(tmp_path, body)
    assert (told["error"], told["child"], told["back"]) == ('"the user\'s"', 3, True)
    assert "watched already" in told["nested"]
    assert "no such folder" in told["output"]
    assert "'colour'" in told["colour"]
    assert "entered" not in told
    assert read_profile(told["path"]).run.exit_status == 1


@pytest.mark.slow
def test_a_process_that_dies_in_its_block_leaves_a_profile(tmp_path: Path) -> None:
    body = """
with watch("dead.json"):
    train(DataLoader(Rows(), 8))
    pid = os.fork()  # holds what the parent held, as a loader's worker does
    if not pid:
        import time
        time.sleep(20)
    os._exit(0)
"""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "train.py").write_text(f"{TRAINING}\nfrom bottleneck_doctor import watch\n{body}")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environ, timeout=PATIENCE_S, check=True)
    end = time.monotonic() + 15
    while not (tmp_path / "dead.json").exists() and time.monotonic() < end:
        time.sleep(0.1)
    profile = read_profile(str(tmp_path / "dead.json"))
    assert [loop.steps for loop in profile.loops] == [ABOUT_32]
    assert "the end" in [gap.what for gap in profile.gaps]
