"""The suite itself: quiet without a device, whole in a rehearsal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tests.gpu import run
from tests.lab.run import execute


@pytest.mark.slow
@pytest.mark.long
def test_without_a_device_one_line_says_so() -> None:
    done = execute([sys.executable, "-m", "tests.gpu.run"], CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "no CUDA device here, or no torch that was built for it: nothing was measured\n"


@pytest.mark.slow
@pytest.mark.long
def test_a_rehearsal_goes_through_a_patient_and_the_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    chosen = ["--rehearse", "--only", "optimizer-for-loop,cost-5ms", "--write", str(page)]
    assert run.main([*chosen, "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| optimizer-fused | " in told, "the twin was measured"
    assert "steps of 5 ms under bdoc: median" in told
    assert "failed" not in told
    assert "## a rehearsal on the CPU\n" in page.read_text()


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    assert [name for name, _ in run.some_items("waits, starved_by_cpu")] == ["waits", "starved-by-cpu"]
    with pytest.raises(argparse.ArgumentTypeError, match="no item 'starvd'; there are waits, starved-by-cpu"):
        run.some_items("starvd")


def test_a_device_gives_its_folder_a_name() -> None:
    assert run.slug("NVIDIA H100 80GB HBM3, 16 cores, Python 3.12.3") == "nvidia-h100-80gb-hbm3"
