"""``bdoc prove``: what it refuses, what it makes of runs that are played to it, and where the proof goes."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.commands.app import main
from bottleneck_doctor.commands.options import FORMAT, WRITE_PATCH, Option
from bottleneck_doctor.commands.prove import hand_over
from bottleneck_doctor.commands.run_options import Form, Options
from bottleneck_doctor.model.codec import encode_profile
from bottleneck_doctor.model.proof import Proof
from bottleneck_doctor.model.run import Losses, Order, Treated, Trial
from bottleneck_doctor.prove import trials
from bottleneck_doctor.prove.trials import Finished
from tests.analyse.runs import run_of
from tests.prove.patch.scripts import loader_with, profile_of
from tests.render.proofs import BROKEN, TYPICAL, WORKERS
from tests.render.reports import TYPICAL as REPORT

SICK = run_of(cpu=0.012, idle=0.01, steps=300, epochs=2)
CURED = run_of(cpu=0.012, idle=0.01, steps=300, epochs=2, workers=2)


class Played:
    """Runs that cost nothing. ``fates``: what becomes of trials with this treatment; "" is the baseline."""

    def __init__(self) -> None:
        self.window = Finished(
            "measured", "", replace(SICK, run=replace(SICK.run, stopped_by="steady")), 20.0
        )
        self.fates: dict[str, Finished] = {}
        self.orders: list[Order] = []
        self.overwrites = ""

    def run_trial(
        self, target: Any, order: Order | None, limits: Any, watch: Any = None, backups: Any = None
    ) -> Finished:
        """The first run, which has no order, or a trial."""
        if order is None:
            return self.window
        self.orders.append(order)
        watch(0.5)
        if self.overwrites:
            backups.back[self.overwrites] = None
            backups.lost["/large.log"] = "it is changed in place, and has more than 64 MiB"
        name = order.treatments[0].name if order.treatments else ""
        if name in self.fates:
            return self.fates[name]
        seen = SICK if name in ("", "replay") else CURED
        trial = Trial(order, [Treated(one.name, 1) for one in order.treatments], [Losses(1, None, ["0x1p0"])])
        return Finished("measured", "", replace(seen, trial=trial), 5.0, 1 << 20)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Played:
    """A script, and runs that are played."""
    (folder / "train.py").write_text("")
    (folder / "profile.json").write_bytes(encode_profile(SICK))
    found = Played()
    monkeypatch.setattr(trials, "run_trial", found.run_trial)
    return found


def proven(capfdbinary: pytest.CaptureFixture[bytes], *options: str) -> tuple[int, dict[str, Any], str]:
    """Status, the proof, and what stood on stderr."""
    status = main(["prove", "--format", "json", *options, "train.py"])
    told = capfdbinary.readouterr()
    return status, json.loads(told.out) if told.out else {}, told.err.decode()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "nothing to run"),
        (["-"], "a script on stdin can be read once only"),
        (["no_such.py"], "no_such.py"),
        (["--budget", "5", "train.py"], "--budget '5': expected a length of time like 30s, 5m or 1h"),
        (["--remedy", "worker-auto", "train.py"], "did you mean workers-auto"),
        (["--profile", "none.json", "train.py"], "none.json"),
        (["--write-patch", "no/folder/x.patch", "train.py"], "--write-patch"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(
    played: Played, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert main(["prove", *options]) == 2
    assert says in capsys.readouterr().err
    assert not played.orders


def test_the_remedy_is_tried_between_baselines_and_measured(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    status, proof, err = proven(capfdbinary)
    assert status == 0
    row = proof["rows"][0]
    assert (row["id"], row["verdict"], proof["winner"]) == ("workers-auto", "kept", "workers-auto")
    assert row["measured"]["likely"] == pytest.approx(2.2, rel=0.1)
    assert row["parity"]["word"] == "identical"
    assert [one.seed for one in played.orders] == [0] * len(played.orders)
    assert played.orders[0].treatments == played.orders[-1].treatments == []
    assert "CPU-bound: " in err  # the report


def test_what_was_put_back_is_told_once_and_what_was_not_even_where_all_is_quiet(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes], folder: Path
) -> None:
    played.overwrites = str(folder / "best.pt")
    back = "put back after the trials: best.pt, which the script had overwritten"
    lost = "not put back: /large.log; it is changed in place, and has more than 64 MiB"
    _, proof, err = proven(capfdbinary)
    assert {back, lost} <= set(proof["notes"])
    assert (err.count(back), err.count(lost)) == (1, 1)
    _, _, err = proven(capfdbinary, "--quiet")
    assert (err.count(back), err.count(lost)) == (0, 1)


def test_the_profile_stands_for_the_first_run(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    played.window = Finished("broke", "nobody asked for it")
    status, proof, _ = proven(capfdbinary, "--profile", "profile.json")
    assert (status, proof["winner"]) == (0, "workers-auto")


def test_a_dry_run_says_what_it_would_do_and_does_not(
    played: Played, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "--dry-run", "--profile", "profile.json", "train.py"]) == 0
    assert "workers-auto" in capfd.readouterr().out
    assert not played.orders


def test_a_training_that_breaks_at_once_keeps_its_own_status(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    ended = replace(SICK, run=replace(SICK.run, exit_status=7))
    played.window = Finished("broke", "ValueError: no data (exit status 7)", ended, 3.0)
    status, proof, err = proven(capfdbinary)
    assert (status, proof) == (7, {})
    assert "the training broke before anything was tried: ValueError: no data" in err


def test_a_training_that_runs_only_once_proves_nothing(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    played.fates[""] = Finished("broke", "FileExistsError: out", None, 3.0)
    status, proof, _ = proven(capfdbinary)
    assert status == 3
    assert proof["notes"] == ["run again as it is, the training broke: FileExistsError: out"]
    assert len(played.orders) == 1


@pytest.mark.parametrize("where", ["window", "trial"])
def test_who_interrupts_gets_what_is_known_and_130(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes], where: str
) -> None:
    if where == "window":
        played.window = Finished("interrupted", "interrupted")
    else:
        played.fates["loader"] = Finished("interrupted", "interrupted", None, 1.0)
    status, proof, _ = proven(capfdbinary)
    assert status == 130
    assert [row["verdict"] for row in proof.get("rows", [])] == (["not-tried"] if where == "trial" else [])


@pytest.mark.parametrize(("steps", "status"), [(300, 0), (4, 3)])
def test_a_healthy_training_has_nothing_to_try_and_one_of_few_steps_cannot_be_judged(
    played: Played, capfdbinary: pytest.CaptureFixture[bytes], steps: int, status: int
) -> None:
    played.window = Finished("measured", "", run_of(idle=0.01, steps=steps, epochs=1), 20.0)
    found, proof, _ = proven(capfdbinary)
    assert (found, proof["rows"], played.orders) == (status, [], [])


SCRIPT = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"
AFTER = SCRIPT.replace("(data)", "(data, num_workers=2)")
PROOF = replace(TYPICAL, rows=[WORKERS, BROKEN])


def hand(folder: Path, proof: Proof = PROOF, asked: dict[Option[Any], object] | None = None) -> None:
    """Hand over the proof of a script in this folder."""
    (folder / "train.py").write_text(SCRIPT)
    cwd = str(folder)
    report = replace(REPORT, remedies=[loader_with(2, cwd, num_workers=2)])
    hand_over(Options(Form("train.py"), asked or {}), proof, profile_of(SCRIPT, cwd=cwd), report)


def test_the_patch_is_written_and_applies_and_the_script_is_untouched(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    hand(tmp_path, asked={WRITE_PATCH: str(tmp_path / "made.patch")})
    assert (tmp_path / "train.py").read_text() == SCRIPT
    subprocess.run(["git", "apply", "made.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / "train.py").read_text() == AFTER
    out = capfdbinary.readouterr().out.decode()
    assert "+loader = DataLoader(data, num_workers=2)" in out


def test_where_nothing_is_kept_there_is_no_patch_and_a_line_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made.patch"
    hand(tmp_path, replace(PROOF, rows=[BROKEN], winner=""), {WRITE_PATCH: str(path)})
    assert not path.exists()
    assert capsys.readouterr().err == f"bdoc: no patch in {str(path)!r}: no remedy is kept\n"


def test_json_on_stdout_is_nothing_but_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand(tmp_path, PROOF, {FORMAT: "json"})
    assert json.loads(capsys.readouterr().out)["winner"] == "workers-auto"
