"""A remedy reaches the loader that a framework builds, on every rank, and its losses are noted."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.compare import parity
from bottleneck_doctor.model.codec import read_profile
from bottleneck_doctor.model.profile import Profile
from tests.house.source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCRIPTS = ROOT / "tests" / "quickstarts"
STEPS, LOSSES = 10, 24  # what came since the last power of two is told when the run is ended
WORKERS = {"name": "loader", "options": {"arguments": {"num_workers": 1}}}


def tried(folder: Path, *target: str, treatments: list[object]) -> Profile:
    """One trial of the script, a few steps long."""
    order, kept = folder / "order.json", folder / "profile.json"
    order.write_text(json.dumps({"treatments": treatments, "losses": LOSSES, "seed": 0}))
    options = ["--quiet", "--no-profiler", "--no-py-spy", "--max-steps", str(STEPS)]
    bdoc = [sys.executable, "-m", "bottleneck_doctor", "run", *options]
    done = subprocess.run(
        [*bdoc, "--trial", str(order), "-o", str(kept), *target],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return read_profile(str(kept))


def test_every_rank_is_treated_and_compared_with_itself(tmp_path: Path) -> None:
    launcher = shutil.which("torchrun", path=str(Path(sys.executable).parent)) or shutil.which("torchrun")
    if launcher is None:
        pytest.skip("torchrun is not installed")
    target = ["--", launcher, "--nproc_per_node", "2", str(SCRIPTS / "on_two_ranks.py")]
    profile = tried(tmp_path, *target, treatments=[WORKERS])
    _has_been_treated(profile, ranks=[0, 1])
    assert profile.trial is not None
    zero, one = sorted(profile.trial.losses, key=lambda losses: losses.rank or 0)
    assert zero.values != one.values
    assert parity([profile.trial], [profile.trial]).word == "identical"


def _has_been_treated(profile: Profile, ranks: list[int | None]) -> None:
    assert profile.trial is not None
    trained = profile.trial.losses
    assert sorted([one.rank for one in trained], key=lambda rank: rank or 0) == ranks
    assert [len(one.values) for one in trained] == [STEPS] * len(ranks)
    assert all(len(one.batches) >= STEPS and all(one.batches) for one in trained)
    treated = {one.pid for one in profile.trial.treated if not one.why}
    assert treated >= {one.pid for one in trained}
    fed = [loader.num_workers for loader in profile.loaders if loader.pid in treated]
    assert fed
    assert set(fed) == {1}
