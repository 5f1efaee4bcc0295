"""Where the proof goes: stdout, a file, the winner's patch; the script stays as it is."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.commands.options import FORMAT, Option
from bottleneck_doctor.commands.proving import hand_over
from bottleneck_doctor.commands.run_options import PROOF as JSON
from bottleneck_doctor.commands.run_options import WRITE_PATCH, Form, Options
from bottleneck_doctor.model.proof import Expected, Proof
from tests.prove.patch.scripts import loader_with, profile_of
from tests.render.proof.proofs import BROKEN, TYPICAL, WORKERS
from tests.render.reports import TYPICAL as REPORT

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


def test_the_proof_is_also_written_as_json(tmp_path: Path) -> None:
    hand(tmp_path, asked={JSON: str(tmp_path / "proof.json")})
    told = json.loads((tmp_path / "proof.json").read_text())
    assert told["rows"][0]["patch"]["diff"].endswith("+loader = DataLoader(data, num_workers=2)\n")


def test_json_on_stdout_is_nothing_but_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = Expected("workers-auto", ">", 3.0, 1, WORKERS.measured)
    hand(tmp_path, replace(PROOF, expected=[expected]), {FORMAT: "json"})
    told = capsys.readouterr()
    assert json.loads(told.out)["winner"] == "workers-auto"
    assert "expected workers-auto > 3: fails" in told.err
